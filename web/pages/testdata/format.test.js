import { changes, isDocument, rows } from '/assets/audit.js';
import { countdown, estimate, money, parts, rate, spoken } from '/assets/format.js';
import { has, refusal, t } from '/assets/strings.js';
import { path, push } from '/assets/trace.js';
import { same, yes } from './check.js';

export default {
  'a countdown shows zero when the time has come, not before': () => {
    same([0, 1, 999, 1000, 61000, 3723000, 90061000, -5].map(countdown), ['0:00', '0:01', '0:01', '0:01', '1:01', '1:02:03', '25:01:01', '0:00']);
    same(parts(90061000), { days: 1, hours: 1, minutes: 1, seconds: 1 });
  },
  'a duration is said in two units': () => {
    same(spoken(90061000), '1 day 1 hour');
    same(spoken(125000), '2 minutes 5 seconds');
    same(spoken(0), '0 seconds');
  },
  'an estimate is a range, and absent without one': () => {
    same(estimate(undefined, undefined), '');
    same(estimate(NaN, 5), '');
    same(estimate(null, null), '');
    same(estimate(10, 20), '< 1 min');
    same(estimate(26, 90), '≤ 2 min');
    same(estimate(240, 360), '4–6 min');
    same(estimate(300, 300), '~ 5 min');
    same(estimate(3000, 4000), '50 min – 1 hr 5 min');
    same(estimate(7200, 9000), '2 hr – 2 hr 30 min');
  },
  'a p90 below the estimate does not turn the range round': () => {
    same(estimate(600, 60), '~ 10 min');
  },
  'money and rates': () => {
    same(money(7500, 'EUR'), '€75');
    same(money(7550, 'EUR'), '€75.50');
    same(money(100, 'not a currency'), '1 not a currency');
    same([rate(500), rate(0.5)], ['500 a second', '30 a minute']);
  },
  'sentences take numbers and plurals': () => {
    same(t('wait.ahead', { n: 1 }), '1 person is ahead of you');
    same(t('wait.ahead', { n: 12846 }), '12,846 people are ahead of you');
    same(t('no such key'), 'no such key');
    same(t('link.retry', {}), 'Reconnecting in {n} s');
    yes(refusal('never heard of').includes('never heard of'), 'an unknown code names itself');
    yes(!has('toString'), 'what every object has is no sentence');
  },
  'an audit line names what changed': () => {
    const doc = (rate, state) => JSON.stringify({ settings: JSON.stringify({ id: 'a', rate_per_s: rate }), state });
    same(changes(doc(5, 'open'), doc(3, 'open')), [{ name: 'rate_per_s', was: '5', is: '3' }]);
    same(changes(doc(5, 'open'), doc(5, 'paused')), [{ name: 'state', was: 'open', is: 'paused' }]);
    same(changes('', doc(5, 'open')).length, 3);
    yes(!isDocument('a 1 b') && !isDocument(''), 'a list of grants is no document');
    same(rows('a 1\nb 2\n'), 2);
  },
  'a trace stays in its box and forgets': () => {
    const values = [];
    for (let i = 0; i < 300; i++) push(values, i);
    same(values.length, 120);
    same(push([], undefined), [0]);
    same(path([], 120, 32), '');
    const numbers = path(values, 120, 32).slice(1).split(/[L ]/).map(Number);
    yes(numbers.every((n) => n >= -0.01 && n <= 120.01), 'a point lies outside');
  },
};
