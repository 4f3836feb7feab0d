// A draw as one fan follows it: the commitment is kept from before, and the place is
// worked out anew from what was published.

import { call, insist } from './api.js';
import { able, check } from './draw.js';
import { commitmentKey, device } from './store.js';

const hash = /^[0-9a-f]{64}$/;

// keep remembers the commitment of a draw that has not taken place, one for each
// joining: what is published later does not replace it.
export function keep(event, draw, born) {
  if (!draw || draw.seed || draw.closed_at || !hash.test(draw.commitment ?? '')) return;
  if (device.get(commitmentKey(event))?.born === born) return;
  device.set(commitmentKey(event), { commitment: draw.commitment, born });
}

// forget is for a place that began behind the draw, or ended.
export const forget = (event) => device.remove(commitmentKey(event));

// verify answers {key, values}: the sentence that says what came of the check, and
// fair where everything fits. It changes nothing.
export async function verify({ event, entry, token, born }) {
  if (!able()) return { key: 'draw.unable' };
  const api = `/v1/events/${event}`;
  try {
    const ask = (path, proof) => insist((attempt) => call('GET', path, { token: proof, attempt }), { tries: 3 });
    const { draw } = (await ask(api)).body;
    if (!draw?.seed) return { key: 'draw.early' };
    const kept = device.get(commitmentKey(event));
    const known = kept?.born === born;
    if (known && kept.commitment !== draw.commitment) return { key: 'draw.commitment' };
    const n = await check({ event, ...draw }, (await ask(`${api}/draw/me`, token)).body, entry);
    return { key: known ? 'draw.fair' : 'draw.fair.unkept', values: { n, m: draw.size }, fair: true };
  } catch (err) {
    if (err.status === 404) return { key: 'draw.late' };
    return { key: misfits.has(err.message) ? err.message : 'draw.failed' };
  }
}

// misfits are what check finds.
const misfits = new Set(['draw.seed', 'draw.proof', 'draw.beacon', 'draw.malformed']);
