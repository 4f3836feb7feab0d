import { keepHead } from '/assets/heads.js';
import { same, yes } from './check.js';

const head = (n, chain = 'a') => ({ event: 'demo', chain, n, at_ms: n, hash: 'h', kid: 'k', sig: 's' });
const after = (...heads) => heads.reduce(keepHead, []).map((h) => `${h.chain}${h.n}`);

export default {
  'the first head and the newest are kept, and no more': () => {
    same(after(head(1), head(2), head(3), head(4), head(5), head(9)), ['a1', 'a4', 'a5', 'a9']);
  },
  'what is older or the same changes nothing': () => {
    const kept = [head(7)];
    yes(keepHead(kept, head(7)) === kept && keepHead(kept, head(3)) === kept, 'an older head was kept');
  },
  'another chain is kept beside the old one': () => {
    same(after(head(7), head(2, 'b'), head(3, 'b')), ['a7', 'b2', 'b3']);
  },
  'what is no head is left out': () => {
    for (const wrong of [undefined, null, {}, { n: 3 }, { ...head(3), sig: 5 }, { ...head(3), n: 'x' }, head(0)]) {
      same(keepHead([], wrong), []);
    }
  },
};
