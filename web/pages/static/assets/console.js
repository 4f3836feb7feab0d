// The operator's console: one sample a second, and the few deeds of a running event.

import { call, randomKey } from './api.js';
import { drawLanes, wireLanes } from './console-lanes.js';
import { drawAudit, drawEvents, drawSample } from './console-view.js';
import { $, attr, panels, show, text, translate } from './dom.js';
import { refusal, t } from './strings.js';
import { push } from './trace.js';

const session = '/v1/ops/session';
const root = $('main');
const every = 1000;
const auditEvery = 5000;
const listEvery = 15000;

let signedIn = false; // by a cookie that this page cannot read
let event = '';
let settings = null;
let traces = { waiting: [], admitted: [] };
let audit = { event: '', after: '', records: [] };
let answered = 0;
let touched = false; // the operator is setting the rate
let limiting = false; // or the limit of people inside
let round = 0; // grows with each change of event or session; old answers are dropped

const ops = (method, path, body, key) => call(method, `/v1/ops/events${path}`, { body, key, patience: 5000 });

function note(sentence) {
  show($('note'), sentence !== '');
  text($('note'), sentence);
}

function signOut(sentence = '') {
  round++;
  signedIn = false;
  event = '';
  panels(root, 'login');
  show($('out'), false);
  attr($('link'), 'data-link', 'idle');
  note(sentence);
  $('token').focus();
}

// failed says what went wrong; a token that is none ends the session.
function failed(err) {
  if (err.status === 401) signOut(t('ops.wrong'));
  else note(refusal(err.code, { detail: err.fields?.map((f) => `${f.field}: ${f.detail}`).join('; ') ?? '' }));
}

// list reads the events and keeps the one that is shown.
async function list() {
  const { body } = await ops('GET', '');
  const ids = body.events.map((e) => e.id);
  drawEvents(body.events, event);
  show($('out'), true);
  if (ids.length === 0) {
    panels(root, 'none');
    event = '';
    return;
  }
  panels(root, 'board');
  if (!ids.includes(event)) choose(new URLSearchParams(location.hash.slice(1)).get('event') ?? '', ids);
  settings = body.events.find((e) => e.id === event);
  if (!touched) setRate(settings.rate_per_s);
  if (!limiting) $('most').value = settings.max_active;
}

function choose(wanted, ids) {
  event = ids.includes(wanted) ? wanted : ids[0];
  round++;
  touched = false;
  limiting = false;
  traces = { waiting: [], admitted: [] };
  audit = { event, after: '', records: [] };
  $('event').value = event;
  $('page').href = `/e/${event}`;
  history.replaceState(null, '', `#event=${event}`);
}

async function sample() {
  const mine = round;
  const { body } = await ops('GET', `/${event}/metrics`);
  if (mine !== round) return;
  answered = performance.now();
  push(traces.waiting, body.waiting);
  push(traces.admitted, body.admitted_per_s);
  drawSample(body, traces);
  drawLanes(body, settings);
}

// trail reads what was written down since the last look, oldest first, and keeps the
// newest few.
async function trail() {
  const mine = round;
  for (let page = 0; page < 20; page++) {
    const limit = 500;
    const query = new URLSearchParams({ limit: String(limit) });
    if (audit.after) query.set('after', audit.after);
    const { body } = await ops('GET', `/${event}/audit?${query}`);
    if (mine !== round) return;
    const { records } = body;
    if (records.length > 0) {
      audit.after = records.at(-1).id;
      audit.records = [...audit.records, ...records].slice(-30);
    }
    if (records.length < limit) break;
  }
  drawAudit(audit.records);
}

// loop runs act, again and again, never twice at once.
function loop(act, ms) {
  const next = async () => {
    try {
      if (signedIn && document.visibilityState === 'visible') await act();
    } catch (err) {
      if (err.status === 401) failed(err);
      else if (err.status === 404) event = '';
    }
    setTimeout(next, ms);
  };
  setTimeout(next, ms);
}

function pulse() {
  if (!signedIn || !event) return;
  const silent = Math.floor((performance.now() - answered) / 1000);
  const stale = silent > 3;
  attr($('link'), 'data-link', stale ? 'retry' : 'live');
  text($('link'), stale ? t('ops.stale', { n: silent }) : t('ops.live'));
  attr(root, 'data-stale', stale ? 'yes' : null);
}

async function deed(method, path, body, done = t('ops.done'), key = undefined) {
  note('');
  try {
    const answer = await ops(method, path, body, key);
    text($('say'), typeof done === 'function' ? done(answer.body) : done);
    await Promise.allSettled([list(), sample(), trail()]);
    return answer.body ?? true;
  } catch (err) {
    failed(err);
    return undefined;
  }
}

// changeLane sets fields of one lane: all lanes are settings of the event, so they are
// read anew just before.
async function changeLane(name, fields) {
  try {
    const { body } = await ops('GET', `/${event}`);
    const lanes = body.lanes.map((l) => (l.name === name ? { ...l, ...fields } : l));
    return await deed('PATCH', `/${event}`, { lanes });
  } catch (err) {
    failed(err);
    return undefined;
  }
}

function sure(sentence) {
  const dialog = $('sure');
  text($('sure-text'), sentence);
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

// The slider is logarithmic: 1 to 100,000 a second on one hand's width.
const toSlider = (rate) => (rate < 1 ? 0 : Math.round((Math.log10(rate) / 5) * 999) + 1);
const fromSlider = (v) => {
  if (v < 1) return 0;
  const rate = 10 ** (((v - 1) / 999) * 5);
  return rate < 20 ? Math.round(rate) : Number(rate.toPrecision(2));
};

function setRate(rate) {
  $('rate').value = rate;
  $('rate-slider').value = toSlider(rate);
  attr($('rate-slider'), 'aria-valuetext', `${rate} ${t('ops.rate.unit')}`);
}

// enter opens the board for whoever is signed in.
async function enter() {
  await list();
  signedIn = true;
  note('');
  await Promise.allSettled([event && sample(), event && trail()]);
  pulse();
}

// signIn trades a token for a session.
async function signIn(token) {
  try {
    await call('POST', session, { token, patience: 5000 });
    await enter();
  } catch (err) {
    failed(err);
  }
}

// resume goes on with a session that this browser has; without one it asks for a token.
async function resume() {
  try {
    await enter();
  } catch (err) {
    if (err.status === 401) $('token').focus();
    else failed(err);
  }
}

async function leave() {
  try {
    await call('DELETE', session, { patience: 5000 });
    signOut();
  } catch (err) {
    failed(err);
  }
}

function start() {
  translate();
  text($('admit'), t('ops.admit.button', { n: 10 }));
  $('login').addEventListener('submit', (e) => {
    e.preventDefault();
    const given = $('token').value.trim();
    $('token').value = '';
    if (given) signIn(given);
  });
  $('out').addEventListener('click', leave);
  $('event').addEventListener('change', async (e) => {
    choose(e.target.value, [e.target.value]);
    await Promise.allSettled([list(), sample(), trail()]);
  });
  $('rate-slider').addEventListener('input', (e) => {
    touched = true;
    setRate(fromSlider(Number(e.target.value)));
  });
  $('rate').addEventListener('input', (e) => {
    touched = true;
    $('rate-slider').value = toSlider(Number(e.target.value));
  });
  $('rate-form').addEventListener('submit', async (e) => {
    e.preventDefault();
    const rate = Number($('rate').value);
    if (await deed('PATCH', `/${event}`, { rate_per_s: rate })) touched = false;
  });
  wireLanes(changeLane);
  $('most').addEventListener('input', () => {
    limiting = true;
  });
  $('most-form').addEventListener('submit', async (e) => {
    e.preventDefault();
    if (await deed('PATCH', `/${event}`, { max_active: Number($('most').value) })) limiting = false;
  });
  $('person-form').addEventListener('submit', async (e) => {
    e.preventDefault();
    const entry = $('person').value.trim();
    const block = e.submitter?.value === 'block';
    if (block && !await sure(t('ops.person.ask'))) return;
    await deed('POST', `/${event}/${block ? 'block' : 'admit'}`, { entry_id: entry }, t(block ? 'ops.person.blocked' : 'ops.person.in'), block ? undefined : randomKey());
  });
  $('states').addEventListener('click', async (e) => {
    const state = e.target.closest('[data-state]')?.dataset.state;
    if (!state) return;
    const ask = { draining: 'ops.drain.ask', closed: 'ops.close.ask' }[state];
    if (!ask || await sure(t(ask))) await deed('PATCH', `/${event}`, { state });
  });
  $('pass').addEventListener('click', async () => {
    const on = $('pass').getAttribute('aria-pressed') !== 'true';
    if (!on || await sure(t('ops.pass.ask'))) await deed('PATCH', `/${event}`, { pass_through: on });
  });
  $('admit-count').addEventListener('input', (e) => text($('admit'), t('ops.admit.button', { n: Number(e.target.value) || 0 })));
  $('admit-form').addEventListener('submit', async (e) => {
    e.preventDefault();
    const count = Number($('admit-count').value);
    const done = (body) => t('ops.admit.done', { n: body.admitted });
    const body = await deed('POST', `/${event}/admit`, { count }, done, randomKey());
    if (body) note(done(body));
  });
  $('seats-form').addEventListener('submit', async (e) => {
    e.preventDefault();
    const ids = $('seats-ids').value.split(/[\s,;]+/).filter(Boolean);
    if (ids.length === 0) return;
    const what = e.submitter?.value === 'release' ? 'release' : 'block';
    if (await deed('POST', `/${event}/seats`, { [what]: ids })) $('seats-ids').value = '';
  });
  loop(async () => {
    if (event) await sample();
  }, every);
  loop(async () => {
    if (event) await trail();
  }, auditEvery);
  loop(list, listEvery);
  setInterval(pulse, 1000);
  resume();
}

start();
