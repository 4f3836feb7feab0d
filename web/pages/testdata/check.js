// The few checks that the tests of the modules need.

export function same(got, want, why = '') {
  const a = JSON.stringify(got);
  const b = JSON.stringify(want);
  if (a !== b) throw new Error(`${why} got ${a}, want ${b}`.trim());
}

export function yes(condition, why) {
  if (!condition) throw new Error(why);
}
