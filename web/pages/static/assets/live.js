// The connection: a WebSocket; where none gets through, server-sent events; where
// those do not either, asking. It says truthfully which, and comes back by itself.

import { appointment, Backoff, jitter } from './backoff.js';
import { fate, ladder } from './ladder.js';
import { openSocket, openStream } from './wires.js';

// silence is how long nothing may come before a connection counts as lost; the
// server says something at least every 25 s.
const silence = 40000;
// first is how long a new connection may take to its first message.
const first = 8000;
// fresh is how long an old connection may take to answer somebody who came back.
const fresh = 1200;
// climb is the time after which a page that only asks tries the better ways again;
// each time in vain it doubles, up to climbMost.
const climb = 60000;
const climbMost = 600000;
// tries is how often a way may fail before it opened, until the next way is tried.
const tries = 2;

export class Live {
  // address is that of the event, token() the place token, said(message) takes what
  // the server says, status(kind, until) how the connection is, and ask(attempt)
  // asks over HTTP and answers with the ms until the next question.
  // greeted() is called when a socket has heard who this is, and may be told more.
  constructor({ address, token, said, status, ask, greeted = () => {} }) {
    Object.assign(this, { address, token, said, status, ask, greeted });
    this.backoff = new Backoff({ base: 1000, cap: 30000 });
    this.rung = 0;
    this.failed = 0;
    this.notBefore = 0; // of performance.now(): the server's word
    this.wire = null;
    this.running = false;
    this.asked = 0;
    this.climb = climb;
    this.timers = new Map();
  }

  start() {
    if (this.running) return;
    this.running = true;
    this.rung = 0;
    this.failed = 0;
    this.connect();
  }

  stop(kind = 'idle') {
    this.running = false;
    this.drop();
    for (const name of [...this.timers.keys()]) this.clear(name);
    this.status(kind);
  }

  // send says something if a socket is there to say it.
  send(message) {
    return this.wire?.send?.(message) ?? false;
  }

  // nudge is for whoever comes back to the page: a fresh state within two seconds,
  // unless the server has told us to wait.
  nudge() {
    if (!this.running || performance.now() < this.notBefore) return;
    const { wire } = this;
    if (!wire) {
      this.connect();
      return;
    }
    const answers = this.hello();
    this.after('fresh', fresh, () => {
      if (this.wire !== wire) return;
      this.askOnce().catch(() => {}); // the connection's own end says more
      if (answers || wire.quiet > silence) this.ended(wire, {});
    });
  }

  // offline stops trying until nudge.
  offline() {
    if (!this.running) return;
    this.drop();
    this.clear('retry');
    this.clear('poll');
    this.status('offline');
  }

  after(name, ms, act) {
    this.clear(name);
    this.timers.set(name, setTimeout(() => {
      this.timers.delete(name);
      act();
    }, ms));
  }

  clear(name) {
    clearTimeout(this.timers.get(name));
    this.timers.delete(name);
  }

  drop() {
    const wire = this.wire;
    this.wire = null;
    this.clear('watch');
    wire?.close();
  }

  hello() {
    const token = this.token();
    return this.send(token ? { type: 'hello', place_token: token } : { type: 'hello' });
  }

  connect() {
    this.clear('retry');
    this.drop();
    if (!this.running) return;
    if (ladder[this.rung] === 'poll') {
      this.poll();
      return;
    }
    this.status('connecting');
    const open = ladder[this.rung] === 'socket' ? openSocket : openStream;
    const wire = open({
      address: `${this.address}/live`, token: this.token(), attempt: this.backoff.attempt + 1,
      opened: () => {
        if (this.wire === wire && this.hello()) this.greeted();
      },
      message: (m) => {
        if (this.wire === wire) this.heard(wire, m);
      },
      closed: (end) => {
        if (this.wire === wire) this.ended(wire, end);
      },
    });
    wire.began = performance.now();
    this.wire = wire;
    this.watch(wire);
  }

  // watch finds out about connections that died without a word.
  watch(wire) {
    this.after('watch', 2000, () => {
      if (this.wire !== wire) return;
      if (wire.spoke ? wire.quiet > silence : performance.now() - wire.began > first) {
        this.ended(wire, {});
        return;
      }
      this.watch(wire);
    });
  }

  heard(wire, m) {
    this.failed = 0;
    this.climb = climb;
    this.backoff.reset();
    this.clear('fresh');
    if (m.type === 'bye') {
      this.notBefore = performance.now() + Math.max(0, Number(m.retry_after_ms) || 0);
      this.lost(0);
      return;
    }
    if (m.type === 'position') this.place = m;
    else if (m.type === 'admitted') this.place = null; // a token is worth coming at once
    this.status('live');
    this.said(m);
  }

  // ended is told why a connection is over, and decides what comes next.
  ended(wire, end) {
    const verdict = fate(end);
    if (verdict.say) this.said(verdict.say);
    if (!this.running) return;
    if (verdict.stop) {
      this.stop();
      return;
    }
    if (verdict.down || (!wire.spoke && ++this.failed >= tries)) {
      this.failed = this.climb > climb ? tries - 1 : 0;
      this.rung = Math.min(this.rung + 1, ladder.length - 1);
    }
    this.lost(end.wait ?? 0, wire.spoke && !end.wait ? appointment(this.place) : 0);
  }

  // lost plans the next try: floor is the server's word, slot our own time in the row.
  lost(floor, slot = 0) {
    this.drop();
    const now = performance.now();
    this.notBefore = Math.max(this.notBefore, now + floor);
    const ms = slot + this.backoff.next(Math.max(0, this.notBefore - now));
    this.status('retry', now + ms);
    this.after('retry', ms, () => this.connect());
  }

  async askOnce() {
    try {
      const wait = await this.ask(this.asked + 1);
      this.asked = 0;
      return wait;
    } catch (err) {
      this.asked++;
      throw err;
    }
  }

  // poll asks again and again, no sooner than the answer says, and now and then
  // tries whether a better way is open again.
  async poll() {
    const began = performance.now();
    this.climbAt ??= began + this.climb + jitter(0, { base: this.climb });
    try {
      const wait = await this.askOnce();
      if (!this.running) return;
      this.backoff.reset();
      this.status('checking');
      if (began >= this.climbAt) {
        this.climbAt = undefined;
        this.climb = Math.min(this.climb * 2, climbMost);
        this.rung = 0;
        this.failed = tries - 1; // one try for each way will do
      }
      const ms = wait || 5000;
      this.after('retry', ms + jitter(0, { base: ms / 5 }), () => this.connect());
    } catch (err) {
      if (!this.running) return;
      if (err.over) {
        this.stop();
        return;
      }
      this.rung = 0; // nothing gets through: that says nothing about sockets
      this.failed = 0;
      this.climbAt = undefined;
      this.lost(err.wait ?? 0);
    }
  }
}
