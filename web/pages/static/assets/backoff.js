// When to try again: exponential, fully jittered, bounded, and never before the
// server said so.

// jitter is a random wait before retry number attempt (0, 1, 2 …).
export function jitter(attempt, { base = 1000, cap = 30000, random = Math.random } = {}) {
  return random() * Math.min(cap, base * 2 ** Math.min(attempt, 30));
}

// appointment is the wait, in ms, before coming back to a service that was lost without
// a word: nearest to the front first over twelve seconds, so that no second holds a
// tenth of the line; a few are no herd. 0 where the place is not known.
export function appointment(place) {
  const position = Number(place?.position);
  const waiting = Number(place?.waiting);
  if (!(position >= 1) || !(waiting >= 1)) return 0;
  return (Math.min(12000, waiting * 60) * (Math.min(position, waiting) - 1)) / waiting;
}

// retryAfter is the wait that an answer asks for, in ms: header and body both hold.
export function retryAfter(headers, body, now = Date.now()) {
  const ms = Number(body?.retry_after_ms);
  const fromBody = Number.isFinite(ms) && ms > 0 ? ms : 0;
  const raw = headers?.get?.('Retry-After')?.trim();
  if (!raw) return fromBody;
  if (/^\d+$/.test(raw)) return Math.max(fromBody, Number(raw) * 1000);
  const date = Date.parse(raw);
  return Number.isNaN(date) ? fromBody : Math.max(fromBody, date - now, 0);
}

// Backoff counts tries in a row.
export class Backoff {
  constructor(options = {}) {
    this.options = options;
    this.attempt = 0;
  }

  // next is the wait before the next try: at least floor, which is the server's word.
  next(floor = 0) {
    return floor + jitter(this.attempt++, this.options);
  }

  reset() {
    this.attempt = 0;
  }
}
