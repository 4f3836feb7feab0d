import { ServerClock, serverTime } from '/assets/clock.js';
import { same, yes } from './check.js';

function device(wrongBy = 0) {
  const d = { mono: 1000, wall: Date.parse('2026-05-01T12:00:00Z') + wrongBy };
  d.clock = new ServerClock({ mono: () => d.mono, wall: () => d.wall });
  d.pass = (ms) => {
    d.mono += ms;
    d.wall += ms;
  };
  return d;
}
const noon = Date.parse('2026-05-01T12:00:00Z');

export default {
  'a wrong device tells the right time': () => {
    const d = device(-3 * 365 * 86400e3);
    d.clock.learn(noon, d.mono, d.mono + 80);
    d.pass(80);
    same(d.clock.now(), noon + 40);
    d.pass(60000);
    same(d.clock.now(), noon + 60040);
  },
  'a clock that is set while we count changes nothing': () => {
    const d = device();
    d.clock.learn(noon, d.mono, d.mono);
    d.wall += 3600e3;
    same(d.clock.now(), noon);
    yes(d.clock.jumped(), 'the jump was not seen');
    yes(!d.clock.jumped(), 'the jump was seen twice');
  },
  'a slow or old answer does not set the clock back': () => {
    const d = device();
    d.clock.learn(noon, d.mono, d.mono + 20);
    d.pass(5000);
    const before = d.clock.now();
    d.clock.learn(noon, d.mono - 3000, d.mono); // five seconds old
    same(d.clock.now(), before);
  },
  'before the first answer it is the device’s own time': () => {
    const d = device(7000);
    yes(!d.clock.known, 'nothing is known yet');
    same(d.clock.now(), noon + 7000);
    d.clock.learn(NaN, 0, 1);
    yes(!d.clock.known, 'no time is not a time');
  },
  'age counts, and so does a revalidated answer’s new date': () => {
    const body = { now: '2026-05-01T12:00:00.250Z' };
    same(serverTime(body, new Headers()), noon + 250);
    same(serverTime(body, new Headers({ Age: '3' })), noon + 3250);
    same(serverTime(body, new Headers({ Date: 'Fri, 01 May 2026 12:00:01 GMT' })), noon + 250);
    same(serverTime(body, new Headers({ Date: 'Fri, 01 May 2026 12:10:00 GMT', Age: '2' })), noon + 602500);
    yes(Number.isNaN(serverTime({}, new Headers())), 'nothing said is no time');
  },
};
