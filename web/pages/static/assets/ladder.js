// Which ways there are to hear from the server, and what the end of one means.

export const ladder = ['socket', 'stream', 'poll'];

// The close codes that say that the place, or the event, is over.
const over = {
  4403: { stop: true, say: { type: 'ended', state: 'blocked' } },
  4404: { stop: true, say: { type: 'Missing' } },
  4408: { stop: true, say: { type: 'ended', state: 'expired' } },
  4410: { stop: true, say: { type: 'ended', state: 'left' } },
};
// The ones that speak against this kind of connection rather than this one.
const unfit = new Set([1002, 1003, 1007, 1009]);

// fate is what follows from the end of a connection: {code, reason} of a socket's
// close frame, {status, name} of a refusal over HTTP, or neither where it was cut.
// stop: do not come back; down: take the next way; say: tell the page this.
export function fate({ code, reason = '', status, name } = {}) {
  if (over[code]) return over[code];
  if (unfit.has(code)) return { down: true };
  if (code === 1008 && reason === 'place token invalid') return { stop: true, say: { type: 'Stranger' } };
  if (code === 1008 && reason === 'too many messages') return { down: true };
  if (status === 404) return { stop: true, say: { type: 'Missing' } };
  if (status === 401 || name === 'token_wrong_event') return { stop: true, say: { type: 'Stranger' } };
  if (status === 400 || status === 403 || status === 405 || status === 406) return { down: true };
  return {};
}
