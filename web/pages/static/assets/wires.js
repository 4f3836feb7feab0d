// The two kinds of connection, as one: messages come in, an end comes once.

import { retryAfter } from './backoff.js';

function read(text, message) {
  let m;
  try {
    m = JSON.parse(text);
  } catch {
    return; // of a later version, perhaps
  }
  if (m && typeof m === 'object' && typeof m.type === 'string') message(m);
}

// common keeps when the wire last spoke.
function common() {
  let last = 0;
  return {
    spoke: false,
    tick() {
      last = performance.now();
      this.spoke = true;
    },
    get quiet() {
      return this.spoke ? performance.now() - last : Infinity;
    },
  };
}

// openSocket opens a WebSocket. The place token goes in its first message, never in
// the address.
export function openSocket({ address, opened, message, closed }) {
  const wire = common();
  let ws;
  try {
    const url = new URL(address, location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    ws = new WebSocket(url);
  } catch {
    queueMicrotask(() => closed({}));
    wire.close = () => {};
    return wire;
  }
  ws.onopen = opened;
  ws.onmessage = (e) => {
    wire.tick();
    read(e.data, message);
  };
  ws.onclose = (e) => closed({ code: e.code, reason: e.reason });
  wire.send = (m) => {
    if (ws.readyState !== WebSocket.OPEN) return false;
    ws.send(JSON.stringify(m));
    return true;
  };
  wire.close = () => {
    ws.onopen = ws.onmessage = ws.onclose = null;
    ws.close();
  };
  return wire;
}

// openStream reads server-sent events through fetch, which, unlike EventSource, can
// say who it is without a cookie and hear when to come back.
export function openStream({ address, token, attempt, opened, message, closed }) {
  const wire = common();
  const stop = new AbortController();
  let silent = false;
  wire.close = () => {
    silent = true;
    stop.abort();
  };
  const end = (how) => {
    if (silent) return;
    silent = true;
    closed(how);
  };
  const headers = { Accept: 'text/event-stream' };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (attempt > 1) headers['X-Attempt'] = String(Math.min(attempt, 1000));

  (async () => {
    const response = await fetch(address, { headers, signal: stop.signal, cache: 'no-store', credentials: 'same-origin' });
    if (!response.ok || !response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
      const body = await response.json().catch(() => undefined);
      end({ status: response.ok ? 406 : response.status, name: body?.code, wait: retryAfter(response.headers, body) });
      return;
    }
    opened();
    const split = lines((text) => read(text, message));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      wire.tick();
      split(value);
    }
    end({});
  })().catch(() => end({}));
  return wire;
}

// lines puts the data of server-sent events together, however they were cut on
// their way, and hands over each event's.
export function lines(event) {
  let rest = '';
  let data = [];
  return (chunk) => {
    const all = (rest + chunk).split(/\r\n|\n|\r(?!$)/);
    rest = all.pop();
    for (const line of all) {
      if (line === '') {
        if (data.length > 0) event(data.join('\n'));
        data = [];
      } else if (line.startsWith('data:')) {
        data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
  };
}
