// ALTCHA's puzzle without ALTCHA's widget, for a build that was made without it: the
// counter is looked for whose key, derived from nonce and counter, begins with the
// prefix. The derivation is the browser's own and runs on a thread of its own.

const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hex = (list) => Array.from(list, (byte) => byte.toString(16).padStart(2, '0')).join('');

// together is how many derivations are under way: their answers come one after another.
const together = 16;

async function derive({ salt, cost, keyLength }, password) {
  const key = await crypto.subtle.importKey('raw', password, 'PBKDF2', false, ['deriveBits']);
  const bits = await crypto.subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-256', salt: bytes(salt), iterations: cost }, key, keyLength * 8);
  return new Uint8Array(bits);
}

// answer is the payload that the service wants, or null where none is below most tries.
export async function answer(challenge, most = 1e6) {
  const { parameters } = challenge;
  const nonce = bytes(parameters.nonce);
  for (let from = 0; from < most; from += together) {
    const keys = await Promise.all(Array.from({ length: together }, (_, n) => {
      const password = new Uint8Array(nonce.length + 4);
      password.set(nonce);
      new DataView(password.buffer).setUint32(nonce.length, from + n);
      return derive(parameters, password);
    }));
    const found = keys.map(hex).findIndex((key) => key.startsWith(parameters.keyPrefix));
    if (found >= 0) {
      return btoa(JSON.stringify({ challenge, solution: { counter: from + found, derivedKey: hex(keys[found]) } }));
    }
  }
  return null;
}
