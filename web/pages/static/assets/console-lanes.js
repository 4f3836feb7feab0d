// The console's table of lanes: how each does, and its rate and pause.

import { $, attr, make, show, text } from './dom.js';
import { decimal, estimate, number, percent } from './format.js';
import { has, t } from './strings.js';

// figures are the columns between the name and the deeds: a heading's sentence, and what
// stands below it for a lane of the sample and what was decided on it.
const figures = {
  'ops.waiting': (l) => number(l.waiting),
  'ops.lane.rate': (l) => t('ops.lane.rate.of', { now: decimal(l.admitted_per_s), most: l.rate_per_s }),
  'ops.lane.why': why,
  'ops.lane.in': (l) => number(l.admitted),
  'ops.inside': (l) => (l.max_active > 0 ? `${number(l.inside)} ${t('ops.inside.of', { n: l.max_active })}` : number(l.inside)),
  'ops.lane.eta': (l) => estimate(l.eta_s, l.eta_p90_s) || '–',
};

function why(lane, decided) {
  if (lane.paused) return t('ops.lane.paused');
  if (!decided) return '–';
  const said = t(has(`ops.why.${decided.reason}`) ? `ops.why.${decided.reason}` : decided.reason);
  if (!Number.isFinite(decided.usage)) return said;
  return `${said} – ${percent(decided.usage)}${decided.load ? ` (${decided.load})` : ''}`;
}

// drawLanes shows a sample's lanes. settings are those of the event, of which a lane's
// rate is shown until somebody begins to set another.
export function drawLanes(sample, settings) {
  const lanes = sample.lanes ?? [];
  show($('lanes-box'), lanes.length > 0);
  const key = `${sample.event} ${lanes.map((l) => l.name).join(' ')}`;
  if ($('lanes').dataset.key !== key) {
    $('lanes').dataset.key = key;
    $('lanes').replaceChildren(...lanes.map((l) => row(l.name)));
  }
  lanes.forEach((lane, i) => fill($('lanes').children[i], lane, sample.decision?.lanes?.[i], settings?.lanes?.[i]));
}

function row(lane) {
  return make(
    'tr', { 'data-lane': lane }, make('th', { scope: 'row' }, lane),
    ...Object.keys(figures).map((name) => make('td', { 'data-name': t(name) })),
    make('td', {}, make(
      'form', { class: 'row' },
      make('input', { type: 'number', min: 0, max: 1000000, step: 'any', inputmode: 'decimal', 'aria-label': t('ops.lane.most', { lane }) }),
      make('button', { class: 'button', type: 'submit', 'aria-label': t('ops.lane.set.one', { lane }) }, t('ops.lane.set.short')),
      make('button', { class: 'button', type: 'button' }),
    )),
  );
}

function fill(tr, lane, decided, settings) {
  Object.values(figures).forEach((figure, i) => text(tr.children[i + 1], figure(lane, decided)));
  attr(tr, 'data-paused', lane.paused ? 'yes' : null);
  const [input, , pause] = tr.querySelectorAll('input, button');
  if (settings && !input.dataset.touched) {
    const own = settings.rate_per_s ?? '';
    if (input.value !== String(own)) input.value = own;
    input.placeholder = settings.share > 0 ? t('ops.lane.share', { share: percent(settings.share) }) : t('ops.lane.event');
  }
  text(pause, t(lane.paused ? 'ops.resume' : 'ops.pause'));
  attr(pause, 'aria-pressed', lane.paused ? 'true' : 'false');
  attr(pause, 'aria-label', t(lane.paused ? 'ops.lane.resume.one' : 'ops.lane.pause.one', { lane: lane.name }));
}

// wireLanes has change(lane, fields) called with what an operator wants of a lane; a
// field without a value is to go. It answers whether that was done.
export function wireLanes(change) {
  const laneOf = (el) => el.closest('tr').dataset.lane;
  $('lanes').addEventListener('input', (e) => {
    e.target.dataset.touched = 'yes';
  });
  $('lanes').addEventListener('submit', async (e) => {
    e.preventDefault();
    const input = e.target.querySelector('input');
    const fields = input.value === '' ? { rate_per_s: undefined } : { rate_per_s: Number(input.value), share: undefined };
    if (await change(laneOf(e.target), fields)) delete input.dataset.touched;
  });
  $('lanes').addEventListener('click', (e) => {
    const button = e.target.closest('button[type=button]');
    if (button) change(laneOf(button), { paused: button.getAttribute('aria-pressed') === 'true' ? undefined : true });
  });
}
