import { appointment, Backoff, jitter, retryAfter } from '/assets/backoff.js';
import { same, yes } from './check.js';

const max = () => 1;

export default {
  'waits grow twice as long each time, up to the cap': () => {
    same([0, 1, 2, 3, 9, 500].map((n) => jitter(n, { base: 1000, cap: 30000, random: max })), [1000, 2000, 4000, 8000, 30000, 30000]);
  },
  'jitter is full: any part of the wait may come': () => {
    same(jitter(5, { random: () => 0 }), 0);
    const seen = Array.from({ length: 200 }, () => jitter(3, { base: 1000 }));
    yes(seen.every((ms) => ms >= 0 && ms <= 8000), 'a wait is out of bounds');
    yes(Math.max(...seen) - Math.min(...seen) > 2000, 'all come at once');
  },
  'a lost service is come back to in the order of the line, no second with a tenth': () => {
    const seconds = {};
    let last = 0;
    for (let position = 1; position <= 5000; position++) {
      const ms = appointment({ position, waiting: 5000 });
      yes(ms >= last && ms <= 12000, `position ${position} comes after ${ms} ms`);
      last = ms;
      seconds[Math.floor(ms / 1000)] = (seconds[Math.floor(ms / 1000)] ?? 0) + 1;
    }
    yes(Math.max(...Object.values(seconds)) <= 500, 'a herd');
    yes(appointment({ position: 9, waiting: 10 }) < 1000, 'a few wait for each other');
    same([appointment(undefined), appointment({ position: 1, waiting: 1 })], [0, 0]);
  },
  'no wait is shorter than the floor': () => {
    const b = new Backoff({ base: 1000, random: () => 0 });
    same([b.next(5000), b.next(0), b.next(1234)], [5000, 0, 1234]);
  },
  'a success begins anew': () => {
    const b = new Backoff({ base: 1000, random: max });
    b.next();
    b.next();
    b.reset();
    same(b.next(), 1000);
  },
  'header and body both hold': () => {
    const h = (v) => new Headers(v === undefined ? {} : { 'Retry-After': v });
    same(retryAfter(h('2'), { retry_after_ms: 1500 }), 2000);
    same(retryAfter(h('1'), { retry_after_ms: 1500 }), 1500);
    same(retryAfter(h(undefined), { retry_after_ms: 700 }), 700);
    same(retryAfter(h(undefined), undefined), 0);
    same(retryAfter(h('soon'), { retry_after_ms: 'x' }), 0);
    same(retryAfter(h('Thu, 01 Jan 2026 00:00:10 GMT'), null, Date.parse('2026-01-01T00:00:00Z')), 10000);
    same(retryAfter(h('Thu, 01 Jan 2026 00:00:10 GMT'), null, Date.parse('2026-01-01T00:01:00Z')), 0);
  },
};
