// The signed heads of the admission log that this device saw. Whoever kept one can show
// later whether the log is still the one that they were shown:
// waitroom verify --log --head takes one of them.

// most is how many are kept: the first that was seen, and the newest others.
const most = 4;

// keepHead gives the heads to keep, or the same list when there is nothing new. A log
// that begins anew after its store was lost has another chain; the old one's heads stay
// until they are pushed out.
export function keepHead(kept, head) {
  if (!head || typeof head.sig !== 'string' || typeof head.chain !== 'string' || !(head.n > 0)) return kept;
  const newest = kept.at(-1);
  if (newest?.chain === head.chain && newest.n >= head.n) return kept;
  const all = [...kept, head];
  return all.length <= most ? all : [all[0], ...all.slice(1 - most)];
}
