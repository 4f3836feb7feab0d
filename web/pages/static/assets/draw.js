// The check of a draw by whoever it concerns: from what was published and the
// entrant's own proof to the place that was drawn. The service's own program and the
// formulas are in waitroom/draw; a test holds both to the same places.

const rounds = 128;
const utf8 = new TextEncoder();

// able tells whether this browser can compute hashes here (https, or this machine).
export const able = () => Boolean(globalThis.crypto?.subtle);

const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest('SHA-256', joined(parts)));

function joined(parts) {
  const all = parts.map((p) => (typeof p === 'string' ? utf8.encode(p) : p));
  const out = new Uint8Array(all.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of all) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

function bytes(hex) {
  if (!/^([0-9a-f]{2})*$/.test(hex ?? 'none')) throw new Error('draw.malformed');
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

const hexOf = (b) => Array.from(b, (x) => x.toString(16).padStart(2, '0')).join('');

function uint64(n) {
  const b = new Uint8Array(8);
  new DataView(b.buffer).setBigUint64(0, BigInt(n));
  return b;
}

// leaf is how an entrant is known outside.
export const leaf = async (event, entry) => hexOf(await sha256('waitroom draw entrant 1\n', event, '\n', entry));

// rootOf follows a proof from the leaf up; null where it leads nowhere.
async function rootOf({ leaf: own, index, size, path }) {
  if (!(index >= 0 && index < size)) return null;
  let at = index;
  let last = size - 1;
  const half = (n) => Math.floor(n / 2);
  let h = await sha256(Uint8Array.of(0), bytes(own));
  for (const sibling of path) {
    if (last === 0) return null;
    if (at % 2 === 1 || at === last) {
      h = await sha256(Uint8Array.of(1), bytes(sibling), h);
      while (at % 2 === 0 && at !== 0) [at, last] = [half(at), half(last)];
    } else {
      h = await sha256(Uint8Array.of(1), h, bytes(sibling));
    }
    [at, last] = [half(at), half(last)];
  }
  return last === 0 ? hexOf(h) : null;
}

async function keyOf({ event, seed, root, size, beacon }) {
  const secret = await crypto.subtle.importKey('raw', bytes(seed), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const said = joined([
    'waitroom draw key 1\n', event, '\n', bytes(root), uint64(size), beacon ? bytes(beacon.randomness) : new Uint8Array(),
  ]);
  return new Uint8Array(await crypto.subtle.sign('HMAC', secret, said));
}

// placeOf is where entrant index of the list stands, from 0.
async function placeOf(key, size, index) {
  let x = BigInt(index);
  const n = BigInt(size);
  for (let r = 0; r < rounds; r++) {
    const pivot = new DataView((await sha256(key, Uint8Array.of(r))).buffer).getBigUint64(0) % n;
    const partner = (pivot + n - x) % n;
    const top = x > partner ? x : partner;
    const bits = await sha256(key, Uint8Array.of(r), uint64(top / 256n));
    const bit = Number(top % 256n);
    if ((bits[Math.floor(bit / 8)] >> bit % 8) & 1) x = partner;
  }
  return Number(x);
}

// check gives the place, from 1, that the draw gave to this entry. It throws an
// Error whose message names what does not fit: draw.seed, draw.proof, draw.beacon,
// draw.malformed.
export async function check(published, proof, entry) {
  const { event, commitment, root, size, round, beacon, fallback, seed } = published;
  if (hexOf(await sha256('waitroom draw commitment 1\n', event, '\n', bytes(seed))) !== commitment) throw new Error('draw.seed');
  if (Boolean(round) !== Boolean(beacon || fallback) || (beacon && beacon.round !== round)) throw new Error('draw.beacon');
  if (beacon && hexOf(await sha256(bytes(beacon.signature))) !== beacon.randomness) throw new Error('draw.beacon');
  if (proof.size !== size || proof.leaf !== (await leaf(event, entry)) || (await rootOf(proof)) !== root) throw new Error('draw.proof');
  return (await placeOf(await keyOf(published), size, proof.index)) + 1;
}
