// One call to the service, and calls that insist.

import { Backoff, retryAfter } from './backoff.js';

// Refusal is an answer that says no. Its code is one of the contract's.
export class Refusal extends Error {
  constructor(status, body, wait) {
    super(body?.detail || `status ${status}`);
    this.status = status;
    this.code = typeof body?.code === 'string' ? body.code : status >= 500 ? 'unavailable' : 'other';
    this.fields = Array.isArray(body?.errors) ? body.errors : [];
    this.reason = typeof body?.reason === 'string' ? body.reason : ''; // why whoever asks may not join
    this.opens = Date.parse(body?.opens_at) || 0; // when the window of whoever asks opens
    this.wait = wait; // ms before which nobody may ask again
    this.challenge = typeof body?.challenge === 'string' ? body.challenge : ''; // where one is to be had
    this.credit = typeof body?.credit === 'string' ? body.credit : ''; // the fault was the service's
  }

  // passing tells whether the same call may succeed later by itself.
  get passing() {
    return this.status >= 500 || this.status === 429 ||
      this.code === 'contended' || this.code === 'exhausted' || this.code === 'idempotency_in_progress';
  }
}

// Unreachable is no answer at all: what was asked may have been done or not.
export class Unreachable extends Error {
  constructor(cause) {
    super('no answer', { cause });
    this.code = 'unreachable';
    this.wait = 0;
  }

  get passing() {
    return true;
  }
}

// randomKey names a deed that must happen once. It needs no secure context, which
// crypto.randomUUID does.
export function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}

const patience = 12000;

// call asks once. token is the place or operator token, entry the entry token; none
// of them ever stands in an address. attempt counts from 1.
export async function call(method, path, options = {}) {
  const headers = new Headers({ Accept: 'application/json' });
  if (options.token) headers.set('Authorization', `Bearer ${options.token}`);
  if (options.entry) headers.set('X-Entry-Token', options.entry);
  if (options.key) headers.set('Idempotency-Key', options.key);
  if (options.etag) headers.set('If-None-Match', options.etag);
  if (options.attempt > 1) headers.set('X-Attempt', String(Math.min(options.attempt, 1000)));
  let body;
  if (options.body !== undefined) {
    headers.set('Content-Type', 'application/json');
    body = JSON.stringify(options.body);
  }
  const limit = AbortSignal.timeout(options.patience ?? patience);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  const sent = performance.now();
  let response;
  let answer;
  try {
    response = await fetch(path, { method, headers, body, signal, cache: 'no-store', credentials: 'same-origin' });
    answer = response.status === 204 || response.status === 304 ? undefined : await response.text();
  } catch (err) {
    if (options.signal?.aborted) throw options.signal.reason;
    throw new Unreachable(err);
  }
  const received = performance.now();
  const parsed = parse(answer);
  const wait = retryAfter(response.headers, parsed);
  if (!response.ok && response.status !== 304) throw new Refusal(response.status, parsed, wait);
  if (answer && parsed === undefined) throw new Unreachable(new Error('the answer is no JSON'));
  return { status: response.status, body: parsed, headers: response.headers, wait, sent, received };
}

function parse(text) {
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// pause waits ms, or until signal ends it.
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const timer = setTimeout(done, ms);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    function done() {
      signal?.removeEventListener('abort', stop);
      resolve();
    }
    signal?.addEventListener('abort', stop, { once: true });
  });
}

// insist makes one call until it is answered for good, at most `tries` times. It
// tells waiting(ms) before each pause, and is right for repeatable calls only.
export async function insist(ask, { tries = 8, signal, waiting = () => {}, backoff = new Backoff() } = {}) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask(attempt);
    } catch (err) {
      if (!err.passing || attempt >= tries) throw err;
      const ms = backoff.next(err.wait);
      waiting(ms, err);
      await pause(ms, signal);
    }
  }
}
