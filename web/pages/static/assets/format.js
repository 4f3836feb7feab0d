// How numbers, times and money are written. Plain functions of their arguments.

import { language, t } from './strings.js';

const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });

export const number = (n) => whole.format(n);
export const decimal = (n) => tenth.format(n);

export function percent(share) {
  return new Intl.NumberFormat(language, { style: 'percent', maximumFractionDigits: 0 }).format(share);
}

// money writes an amount in cents, without cents where there are none.
export function money(cents, currency) {
  const amount = cents / 100;
  try {
    return new Intl.NumberFormat(language, {
      style: 'currency', currency, minimumFractionDigits: cents % 100 === 0 ? 0 : 2,
    }).format(amount);
  } catch {
    return `${tenth.format(amount)} ${currency ?? ''}`.trim();
  }
}

// parts splits a duration. The last second counts as one until it is over, so that
// a countdown shows zero exactly when the time has come.
export function parts(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  return {
    days: Math.floor(s / 86400),
    hours: Math.floor(s / 3600) % 24,
    minutes: Math.floor(s / 60) % 60,
    seconds: s % 60,
  };
}

const two = (n) => String(n).padStart(2, '0');

// countdown is a running clock: 0:05, 12:34, 1:02:03, and with days in hours.
export function countdown(ms) {
  const p = parts(ms);
  const hours = p.days * 24 + p.hours;
  return hours > 0 ? `${hours}:${two(p.minutes)}:${two(p.seconds)}` : `${p.minutes}:${two(p.seconds)}`;
}

function unit(n, name, style) {
  return new Intl.NumberFormat(language, { style: 'unit', unit: name, unitDisplay: style }).format(n);
}

// spoken is a duration as one would say it, at most two units long.
export function spoken(ms, style = 'long') {
  const p = parts(ms);
  const said = [];
  for (const [n, name] of [[p.days, 'day'], [p.hours, 'hour'], [p.minutes, 'minute'], [p.seconds, 'second']]) {
    if (n > 0 || (said.length === 0 && name === 'second')) said.push(unit(n, name, style));
    if (said.length === 2) break;
  }
  return said.join(' ');
}

// roughly is a wait in seconds, no more exact than anyone can know it.
function roughly(s) {
  const minutes = Math.max(1, Math.round(s / 60));
  if (minutes < 60) return unit(minutes, 'minute', 'short');
  const five = Math.round(minutes / 5) * 5;
  const h = Math.floor(five / 60);
  const m = five % 60;
  return m === 0 ? unit(h, 'hour', 'short') : `${unit(h, 'hour', 'short')} ${unit(m, 'minute', 'short')}`;
}

// estimate is the range of a wait, or "" while nobody knows.
export function estimate(etaS, p90S) {
  if (!Number.isFinite(etaS) || etaS < 0) return '';
  const high = Number.isFinite(p90S) ? Math.max(etaS, p90S) : etaS;
  if (high < 60) return `< ${unit(1, 'minute', 'short')}`;
  const low = roughly(etaS);
  const far = roughly(Math.ceil(high / 60) * 60);
  if (etaS < 45) return `≤ ${far}`;
  if (low === far) return `~ ${low}`;
  const [number0, ...unit0] = low.split(' ');
  const [, ...unit1] = far.split(' ');
  // "4–6 min" where the unit is the same, else "50 min – 1 hr 10 min".
  return unit0.join(' ') === unit1.join(' ') && unit0.length === 1 ? `${number0}–${far}` : `${low} – ${far}`;
}

// rate is how fast the line moves, in the unit that reads best.
export function rate(perSecond) {
  if (perSecond >= 1) return t('wait.rate.value', { n: perSecond });
  return t('wait.rate.minute', { n: perSecond * 60 });
}

// moment is a point in time on the reader's own calendar.
export function moment(ms) {
  return new Intl.DateTimeFormat(language, {
    weekday: 'long', day: 'numeric', month: 'long', hour: '2-digit', minute: '2-digit', timeZoneName: 'short',
  }).format(new Date(ms));
}

// recent is a point in time that is mostly of today: then its hour will do.
export function recent(ms, now) {
  if (now - ms > 12 * 3600 * 1000) return moment(ms);
  return new Intl.DateTimeFormat(language, { hour: '2-digit', minute: '2-digit' }).format(new Date(ms));
}

// near is a point in time around now: then its hour will do.
export function near(ms, now) {
  return ms > now + 12 * 3600 * 1000 ? moment(ms) : recent(ms, now);
}

// span is a time from and to on the reader's own calendar.
export function span(from, to) {
  return new Intl.DateTimeFormat(language, {
    weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit',
  }).formatRange(new Date(from), new Date(to));
}

// timeOfDay is the time in a log line.
export function timeOfDay(ms) {
  return new Intl.DateTimeFormat(language, {
    month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false,
  }).format(new Date(ms));
}
