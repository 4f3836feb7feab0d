// The server's clock, learned from its answers. The device's own clock may be wrong
// by years and may be set while we count: what counts is a monotonic one.

// most samples are remembered; stale ones would hide that clocks drift.
const most = 8;
// apart is how far the two clocks of the device may differ between two looks before
// it has slept, or somebody has set it.
const apart = 1500;

// serverTime reads the moment at which an answer was made, in ms. The body's own
// time is the exact one, but a cache that asked the service whether its copy is
// still good keeps the old body under new headers: then the date of those counts.
export function serverTime(body, headers = new Headers()) {
  const now = Date.parse(body?.now ?? '');
  const date = Date.parse(headers.get('Date') ?? '');
  const age = (Number(headers.get('Age')) || 0) * 1000;
  if (Number.isNaN(now)) return Number.isNaN(date) ? NaN : date + age + 500;
  if (!Number.isNaN(date) && date - now > 2000) return date + age + 500;
  return now + age;
}

export class ServerClock {
  // mono never jumps, wall is the device's idea of the date; both in ms.
  constructor({ mono = () => performance.now(), wall = () => Date.now() } = {}) {
    this.mono = mono;
    this.wall = wall;
    this.samples = [];
    this.offset = undefined;
    this.mark = { mono: mono(), wall: wall() };
  }

  get known() {
    return this.offset !== undefined;
  }

  // learn takes a server time with the moments (of mono) of question and answer. An
  // answer can only be older than it seems, so the latest claim is the best one.
  learn(time, sent, received) {
    if (!Number.isFinite(time)) return;
    this.samples.push({ least: time - received, trip: Math.max(0, received - sent) });
    if (this.samples.length > most) this.samples.shift();
    const least = Math.max(...this.samples.map((s) => s.least));
    const trip = Math.min(...this.samples.map((s) => s.trip));
    this.offset = least + trip / 2;
  }

  // now is the server's time in ms; before the first answer, the device's own guess.
  now() {
    return this.known ? this.offset + this.mono() : this.wall();
  }

  // jumped tells, once each time, that the device slept or its clock was set. What
  // was learned before may be wrong now, since not every mono runs during sleep.
  jumped() {
    const at = { mono: this.mono(), wall: this.wall() };
    const drift = (at.wall - this.mark.wall) - (at.mono - this.mark.mono);
    this.mark = at;
    if (Math.abs(drift) < apart) return false;
    this.samples = [];
    return true;
  }
}
