// How the console looks. It only writes; console.js decides.

import { changes, isDocument, rows } from './audit.js';
import { $, attr, make, show, text } from './dom.js';
import { decimal, number, percent, rate, timeOfDay } from './format.js';
import { has, t } from './strings.js';
import { draw } from './trace.js';

// drawEvents fills the choice of events.
export function drawEvents(events, chosen) {
  const select = $('event');
  const key = events.map((e) => `${e.id} ${e.name}`).join('|');
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  select.replaceChildren(...events.map((e) => make('option', { value: e.id, selected: e.id === chosen ? '' : null }, e.name || e.id)));
}

// drawSample shows one second of an event.
export function drawSample(s, traces) {
  attr($('state'), 'data-state', s.state);
  text($('state'), t(`ops.state.${s.state}`));
  text($('waiting'), number(s.waiting));
  text($('admitted'), decimal(s.admitted_per_s));
  text($('rate-of'), t('ops.rate.of', { n: s.rate_per_s }));
  text($('inside'), number(s.inside));
  text($('inside-of'), s.max_active > 0 ? t('ops.inside.of', { n: s.max_active }) : t('ops.inside.free'));
  const known = Number.isFinite(s.pool_usage);
  text($('pool'), known ? percent(s.pool_usage) : t('ops.pool.none'));
  $('pool-bar').value = known ? s.pool_usage : 0;
  text($('seats'), Number.isFinite(s.seats_left) ? number(s.seats_left) : '–');
  text($('estimate'), Number.isFinite(s.estimate_kept) ? percent(s.estimate_kept) : '–');
  text($('total'), number(s.admitted));
  text($('sockets'), number(s.sockets));
  draw($('plot-waiting'), traces.waiting);
  draw($('plot-admitted'), traces.admitted);
  decision(s);
  states(s.state);
  attr($('pass'), 'aria-pressed', s.pass_through ? 'true' : 'false');
  text($('pass'), t(s.pass_through ? 'ops.pass.off' : 'ops.pass'));
}

function decision(s) {
  const d = s.decision;
  let why = d ? t(has(`ops.why.${d.reason}`) ? `ops.why.${d.reason}` : d.reason) : '–';
  if (d && Number.isFinite(d.rate_per_s) && d.reason !== 'not_open') why += ` (${rate(d.rate_per_s)})`;
  if (d?.pass_through) why = t('ops.why.pass', { why });
  if (d?.held && d.held !== 'rate_cap') why += `, ${t('ops.held', { what: t(has(`ops.held.${d.held}`) ? `ops.held.${d.held}` : d.held) })}`;
  text($('why'), why);
  const name = d?.leader;
  text($('leader'), !name ? t('ops.leader.none') : name === s.node ? t('ops.leader.self', { name }) : name);
  text($('fence'), d?.fence ? String(d.fence) : '–');
  text($('load'), d?.load || '–');
  text($('signals'), d?.signals?.map(signal).join(' · ') || '–');
  text($('log'), d?.log ? t('ops.log.head', { n: d.log.n, hash: String(d.log.hash).slice(0, 12) }) : '–');
}

// signal is what one source said: its figure, its age, and why it does not count.
function signal(s) {
  const figure = Number.isFinite(s.usage) ? percent(s.usage) : '–';
  const what = s.detail ? `${figure} (${s.detail})` : figure;
  const told = t('ops.signal', { what, age: decimal(s.age_ms / 1000) });
  return s.fault ? `${told}: ${s.fault}` : told;
}

// states shows which way an event may go: the button of its own state is off, and
// "open" is called "resume" while it is paused.
function states(state) {
  for (const button of $('states').querySelectorAll('[data-state]')) {
    button.disabled = button.dataset.state === state;
    attr(button, 'aria-pressed', button.dataset.state === state ? 'true' : 'false');
  }
  text($('open'), t(state === 'paused' ? 'ops.resume' : 'ops.open'));
}

// drawAudit shows the newest records first.
export function drawAudit(records) {
  const body = $('audit');
  show($('audit-none'), records.length === 0);
  const key = records.at(-1)?.id ?? '';
  if (body.dataset.key === key) return;
  body.dataset.key = key;
  body.replaceChildren(...records.toReversed().map((r) => make(
    'tr', {},
    make('td', {}, timeOfDay(Date.parse(r.at))), make('td', {}, r.by), make('td', {}, r.what),
    make('td', {}, told(r)),
  )));
}

// told is one record's change in words.
function told(r) {
  if (r.what === 'create') return changes('', r.after).find((c) => c.name === 'name')?.is ?? '';
  if (r.what === 'admit') return t('ops.admit.done', { n: rows(r.after) });
  if (!isDocument(r.before) && !isDocument(r.after)) return [r.before, r.after].filter(Boolean).join(' → ');
  const list = changes(r.before, r.after).map((c) => `${c.name}: ${c.was ?? '–'} → ${c.is ?? '–'}`);
  return list.length > 0 ? list.join(', ') : t('ops.audit.same');
}
