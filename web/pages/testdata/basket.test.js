import { randomKey } from '/assets/api.js';
import { attempt, Changes, follow, loss, panel, price, prune, seatsOf, takes } from '/assets/basket.js';
import { has } from '/assets/strings.js';
import { same, yes } from './check.js';

const map = {
  sections: [
    { id: 'A', name: 'Stalls', price_cents: 7500, currency: 'EUR', seats: [{ id: 'A-1-1', status: 'free' }, { id: 'A-1-2', status: 'held' }] },
    { id: 'B', name: 'Circle', price_cents: 5000, currency: 'EUR', seats: [{ id: 'B-1-1', status: 'free' }] },
  ],
};
const seats = seatsOf(map);
const held = { reservation_id: 'r1', status: 'held', seats: ['A-1-1'] };

export default {
  'the price is the sum over sections': () => {
    same(price(seats, ['A-1-1', 'B-1-1', 'gone']), { cents: 12500, currency: 'EUR' });
    same(price(seats, []), { cents: 0, currency: '' });
  },
  'seats that went leave the choice': () => {
    same(prune(seats, ['A-1-1', 'A-1-2', 'X']), { kept: ['A-1-1'], gone: ['A-1-2', 'X'] });
  },
  'changes count where they are newer, in any order, for maps that are read later, too': () => {
    const read = (version) => ({ sections: [{ seats: [{ id: 'A', status: 'free', version }, { id: 'B', status: 'free', version: 1 }] }], items: [{ id: 'I', total: 9, free: 9, version: 1 }] });
    const changes = new Changes();
    const here = read(1);
    changes.take(here, { seats_left: 4, seats: [{ id: 'A', status: 'sold', version: 3 }, { id: 'gone', status: 'free', version: 9 }] });
    changes.take(here, { seats_left: 5, seats: [{ id: 'A', status: 'held', version: 2 }], items: [{ id: 'I', total: 9, free: 2, version: 2 }] });
    same(here, { sections: [{ seats: [{ id: 'A', status: 'sold', version: 3 }, { id: 'B', status: 'free', version: 1 }] }], items: [{ id: 'I', total: 9, free: 2, version: 2 }], seats_left: 5 });
    const behind = read(2);
    changes.apply(behind);
    same(behind.sections[0].seats[0], { id: 'A', status: 'sold', version: 3 });
    const ahead = read(7);
    changes.apply(ahead);
    same(ahead.sections[0].seats[0].status, 'free');
  },
  'one wish, one key': () => {
    let n = 0;
    const key = () => `k${++n}`;
    const a = attempt(undefined, { seats: ['A'] }, key);
    same(attempt(a, { seats: ['A'] }, key), a);
    same(attempt(a, { seats: ['A', 'B'] }, key).key, 'k2');
    yes(/^[0-9a-f]{32}$/.test(randomKey()) && randomKey() !== randomKey(), 'keys are random');
  },
  'late and foreign messages change nothing': () => {
    const paid = { ...held, status: 'paid' };
    yes(takes(paid, { reservation_id: 'r1', status: 'payment_pending' }) === paid, 'a late message undid a sale');
    const pending = { ...held, status: 'payment_pending' };
    same(takes(pending, { reservation_id: 'r1', status: 'payment_pending', reason: 'payment_unavailable' }).reason, 'payment_unavailable');
    yes(takes(pending, { reservation_id: 'r1', status: 'held' }) === pending, 'a late message undid a payment');
    yes(takes(held, { reservation_id: 'r2', status: 'paid' }) === held, 'another reservation’s message counted');
    same(takes(null, { reservation_id: 'r1', status: 'paid' }), null);
    same(takes(pending, { reservation_id: 'r1', status: 'cancelled', reason: 'payment_unavailable' }),
      { reservation_id: 'r1', status: 'cancelled', seats: ['A-1-1'], reason: 'payment_unavailable' });
  },
  'each outcome has its panel and its sentences': () => {
    const of = (status, reason) => {
      const r = { ...held, status, reason };
      const name = panel({ gate: 'in', map, reservation: r });
      if (name === 'lost') yes(has(`lost.${loss(r)}.title`) && has(`lost.${loss(r)}.text`), `${status} has no sentence`);
      return name;
    };
    same(['held', 'payment_pending', 'paid'].map((s) => of(s)), ['hold', 'pay', 'paid']);
    for (const status of ['cancelled', 'expired', 'payment_failed', 'refunded', 'of a later version']) same(of(status), 'lost');
    same(loss({ status: 'cancelled', reason: 'payment_unavailable' }), 'unavailable');
    same(loss({ status: 'cancelled', reason: 'by_buyer' }), 'cancelled');
    same(panel({ gate: 'in', map: null, reservation: null }), 'load');
    same(panel({ gate: 'in', map, reservation: null }), 'choose');
    same(panel({ gate: 'wait', map, reservation: null }), 'wait');
  },
  'looks at a payment become rarer, up to a bound': () => {
    same([0, 1, 4, 50].map(follow), [1000, 1500, 3000, 5000]);
  },
};
