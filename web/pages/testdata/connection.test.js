import { fate } from '/assets/ladder.js';
import { destination } from '/assets/turn.js';
import { lines } from '/assets/wires.js';
import { nextLook } from '/assets/event.js';
import { same, yes } from './check.js';

export default {
  'each close code means what the service means': () => {
    same(fate({ code: 4403 }).say, { type: 'ended', state: 'blocked' });
    same(fate({ code: 4408 }).say, { type: 'ended', state: 'expired' });
    same(fate({ code: 4410 }).say, { type: 'ended', state: 'left' });
    same(fate({ code: 4404 }).say, { type: 'Missing' });
    for (const code of [1001, 1005, 1006, 1012, 4001]) same(fate({ code }), {}, `${code} comes back`);
    for (const code of [1002, 1003, 1007, 1009]) same(fate({ code }), { down: true }, `${code} takes another way`);
    same(fate({ code: 1008, reason: 'no hello in time' }), {});
    same(fate({ code: 1008, reason: 'too many messages' }), { down: true });
    same(fate({ code: 1008, reason: 'place token invalid' }).say, { type: 'Stranger' });
    same(fate({ status: 401, name: 'token_required' }).say, { type: 'Stranger' });
    same(fate({ status: 404 }).say, { type: 'Missing' });
    same(fate({ status: 503 }), {});
    same(fate({ status: 403, name: 'forbidden' }), { down: true });
    same(fate(), {});
  },
  'server-sent events are put together however they are cut': () => {
    const whole = 'retry: 500\r\n: ping\n\ndata: {"a":1}\n\ndata: one\ndata:two\nevent: x\n\n';
    for (const size of [1, 2, 3, 7, 1000]) {
      const seen = [];
      const feed = lines((text) => seen.push(text));
      for (let i = 0; i < whole.length; i += size) feed(whole.slice(i, i + size));
      same(seen, ['{"a":1}', 'one\ntwo'], `in pieces of ${size}`);
    }
  },
  'a turn goes to our shop, or by a form to a site, and nowhere else': () => {
    const to = (url) => destination(url, 'demo', 'https://wait.example');
    same(to(''), { way: 'shop', href: '/e/demo/shop' });
    same(to('/e/demo/shop'), { way: 'shop', href: '/e/demo/shop' });
    same(to('https://wait.example/e/demo/shop'), { way: 'shop', href: '/e/demo/shop' });
    same(to('https://shop.example/buy?x=1#top'), {
      way: 'form', action: 'https://shop.example/v1/gate/demo/enter', back: '/buy?x=1', host: 'shop.example',
    });
    same(to('/members').action, 'https://wait.example/v1/gate/demo/enter');
    same([to('javascript:alert(1)'), to('http://['), to('data:text/html,x')], [null, null, null]);
  },
  'pages do not all look in the same moment': () => {
    const now = Date.parse('2026-05-01T12:00:00Z');
    const e = { state: 'scheduled', opens_at: '2026-05-01T12:00:05Z' };
    const looks = Array.from({ length: 100 }, () => nextLook(e, now));
    yes(looks.every((ms) => ms >= 5200 && ms <= 8200), 'a look comes too early or too late');
    yes(Math.max(...looks) - Math.min(...looks) > 1000, 'all look at once');
    yes(nextLook({ state: 'scheduled', opens_at: '2027-05-01T12:00:00Z' }, now) <= 63200, 'the schedule may change');
  },
};
