// How the waiting page looks in each state. It only writes; wait.js decides.

import { $, attr, show, text } from './dom.js';
import { countdown, estimate, moment, number, parts, rate, recent, spoken } from './format.js';
import { ahead, ending, isDraw, line, mayCheck, opening, panel, progress, soldOut, undrawn } from './place.js';
import { has, t } from './strings.js';
import { destination } from './turn.js';

// draw writes everything and returns the name of the panel to show.
export function draw(view) {
  const { state, now } = view;
  const name = panel(state, now);
  const title = state.event?.name ?? '';
  if (title) text($('name'), title);
  document.title = titleOf(view, name, title);
  attr(document.body, 'data-mood', name === 'turn' ? 'turn' : null);
  notices(view, name);
  drawn(view, name);
  text($('leave-text'), t(state.party?.members > 1 ? 'leave.party' : undrawn(state) ? 'leave.undrawn' : 'leave.text'));
  ({ load, before, join, wait, number: numbering, turn, friend: () => {}, end, missing: () => {} })[name](view);
  return name;
}

function titleOf({ state }, name, title) {
  const values = { name: title || t('brand'), position: state.position === null ? '' : number(state.position) };
  if (name === 'turn') return t('title.turn', values);
  if (name === 'wait' && state.event?.state === 'paused') return t('title.paused', values);
  if (name === 'wait' && state.position !== null) return t('title.place', values);
  return t('title.plain', values);
}

// notices are the lines above the panel: trouble, a pause, the organiser's words.
function notices({ state, note, now }, name) {
  const e = state.event;
  const waits = name === 'wait' || name === 'join';
  const slow = e?.state === 'open' && has(`slow.${e.reason}`); // by the load, not by anybody's hand
  const held = waits && (e?.state === 'paused' || slow);
  show($('away'), state.away && name !== 'missing');
  show($('pause'), held && !state.away);
  if (held) {
    const since = Date.parse(e.since);
    const title = slow ? 'slow.title' : 'pause.title';
    text($('pause-title'), Number.isFinite(since) ? t(`${title}.since`, { when: recent(since, now) }) : t(title));
    text($('pause-text'), slow ? t(`slow.${e.reason}`) : pauseText(e.reason));
  }
  show($('drain'), name === 'wait' && e?.state === 'draining');
  show($('soldout'), waits && soldOut(state) && e?.state !== 'closed');
  text($('soldout-text'), t(e?.reason === 'sold_out' ? 'wait.soldout.paid' : 'wait.soldout'));
  const message = name === 'missing' ? '' : e?.message ?? '';
  show($('message'), message !== '');
  text($('message-text'), message);
  const said = note === '' ? '' : noteText(note, state);
  show($('note'), said !== '');
  text($('note'), said);
}

function pauseText(reason) {
  const key = `pause.${reason}`;
  return t(has(key) ? key : 'pause.other');
}

function noteText(note, state) {
  if (note === 'turn.barred') {
    return t(note, { host: destination(state.turn?.redirect, '', location.origin)?.host ?? '' });
  }
  return has(note) ? t(note) : t('no.other', { code: note.replace('no.', '') });
}

function load({ failing }) {
  text($('load-text'), t(failing ? 'load.failed' : 'load.text'));
}

function before({ state, now, clockKnown }) {
  const next = opening(state.event, now);
  show($('clock'), next !== null && clockKnown);
  text($('before-what'), next ? t(`before.${next.what}`) : t('before.unknown'));
  show($('before-when'), next !== null);
  if (!next) return;
  text($('before-when'), t('before.when', { when: moment(next.at) }));
  const p = parts(next.at - now);
  for (const unit of ['days', 'hours', 'minutes', 'seconds']) {
    text($(`clock-${unit}`), unit === 'days' ? String(p[unit]) : String(p[unit]).padStart(2, '0'));
    text($(`clock-${unit}-name`), t(`before.${unit}`, { n: p[unit] }));
  }
  show($('clock-day-box'), p.days > 0);
}

// asks are the sentences of a panel where one joins, by what is given out there.
const asks = {
  place: { title: 'join.title', hint: 'join.hint', open: 'join.open', soon: 'join.lobby', button: 'join.button', busy: 'join.busy' },
  draw: { title: 'draw.join.title', hint: 'join.hint', open: 'draw.lobby', soon: 'draw.join', button: 'draw.join.button', busy: 'join.busy' },
  token: { title: 'issue.title', hint: 'issue.hint', open: 'issue.open', button: 'issue.button', busy: 'issue.busy' },
  number: { title: 'number.ask.title', hint: 'number.ask.hint', open: 'number.ask.open', button: 'number.ask.button', busy: 'issue.busy' },
};

function askFor(state) {
  const { mode, state: is } = state.event;
  if (mode === 'instant') return asks.token;
  if (mode === 'buffered') return asks.number;
  return isDraw(state) && (is === 'lobby' || is === 'scheduled') ? asks.draw : asks.place;
}

// retries are the sentences for whoever is asked to wait before the next try.
const retries = { exhausted: 'issue.exhausted', rate_limited: 'join.limited' };

function join({ state, now, busy, choice }) {
  const next = opening(state.event, now);
  const ask = askFor(state);
  const instant = !ask.soon;
  text($('join-title'), t(ask.title));
  text($('join-hint'), t(ask.hint));
  text($('join-text'), next && ask.soon ? t(ask.soon, { left: spoken(next.at - now) }) : t(ask.open));
  const waiting = state.event.waiting ?? 0;
  text($('join-waiting'), waiting > 0 ? t('join.waiting', { n: waiting }) : t('join.nobody'));
  show($('join-heads'), waiting > 0 && !instant);
  show($('join-waiting'), !instant);
  joining($('join'), ask.button, busy, ask.busy);
  const left = busy.join ? Math.ceil((busy.join.until - performance.now()) / 1000) : 0;
  show($('join-retry'), left > 0);
  if (left > 0) text($('join-retry'), t(retries[busy.join.why] ?? 'join.retry', { n: left }));
  choice.draw(state.event, now);
}

function joining(button, key, busy, busyKey = 'join.busy') {
  attr(button, 'aria-disabled', busy.join ? 'true' : null);
  text(button, t(busy.join ? busyKey : key));
}

function wait({ state, now, busy }) {
  const e = state.event;
  const known = state.position !== null;
  const inDraw = state.phase === 'lobby' && isDraw(state);
  text($('wait-title'), t(inDraw ? 'draw.lobby.title' : 'wait.title'));
  show($('position-box'), known);
  show($('finding'), !known);
  text($('finding'), t(!inDraw ? 'wait.finding' : e.draw?.closed_at ? 'draw.drawing' : 'draw.lobby'));
  if (known) text($('position'), number(state.position));
  const before = ahead(state);
  text($('ahead'), !known ? '' : before === 0 ? t('wait.next') : t('wait.ahead', { n: before }));
  text($('behind'), known && state.waiting !== null ? t('wait.behind', { n: state.waiting }) : '');
  const share = progress(state);
  $('progress').value = Math.round(share * 1000);
  attr($('progress'), 'aria-valuetext', known ? $('ahead').textContent : null);

  const next = opening(e, now);
  const lobby = e.state === 'lobby' || e.state === 'scheduled';
  show($('wait-lobby'), lobby);
  if (lobby) text($('wait-lobby'), next ? t('wait.lobby', { left: spoken(next.at - now) }) : t('wait.lobby.soon'));

  const range = estimate(state.eta, state.p90);
  const mine = line(state);
  show($('line-box'), state.lane !== null);
  text($('line'), state.lane ?? '');
  show($('estimate-box'), !lobby);
  text($('estimate'), e.state === 'paused' || mine.paused ? t('wait.held') : range || t('wait.unknown'));
  show($('rate-box'), mine.rate_per_s > 0 && e.state !== 'paused' && !lobby);
  if (mine.rate_per_s > 0) text($('rate'), rate(mine.rate_per_s));
  const seats = e.seats_left;
  show($('seats-box'), Number.isFinite(seats));
  if (Number.isFinite(seats)) text($('seats'), number(seats));
  attr($('leave'), 'aria-disabled', busy.leave ? 'true' : null);
}

// drawn offers to check the draw, below whatever the place is now.
function drawn({ state, proof }, name) {
  show($('drawn'), mayCheck(state) && (name === 'wait' || name === 'turn'));
  attr($('drawn-check'), 'aria-disabled', proof?.busy ? 'true' : null);
  text($('drawn-check'), t(proof === null ? 'draw.check' : proof.busy ? 'draw.checking' : 'draw.again'));
  show($('drawn-check'), !proof?.fair);
  text($('drawn-said'), proof && !proof.busy ? t(proof.key, proof.values) : '');
  attr($('drawn-said'), 'data-fair', proof?.fair ? 'yes' : null);
}

function outcome(number) {
  return number === null ? 'queued' : number.winner ? 'won' : 'lost';
}

function numbering({ state: { number: mine } }) {
  const key = outcome(mine);
  text($('number-title'), t(`number.${key}.title`));
  text($('number-text'), t(`number.${key}.text`));
  show($('number-dots'), mine === null);
  show($('number-box'), mine !== null);
  if (mine) text($('number'), number(mine.seq));
}

function turn({ state, now, leap }) {
  const left = state.turn.expires - now;
  text($('turn-clock'), countdown(left));
  text($('turn-left'), t(state.phase === 'entered' ? 'turn.inside' : 'turn.left'));
  text($('enter'), t(state.phase === 'entered' ? 'turn.back' : 'turn.button'));
  const n = leap.at === null ? 0 : Math.max(1, Math.ceil((leap.at - performance.now()) / 1000));
  show($('stay'), n > 0);
  text($('turn-auto'), n > 0 ? t('turn.auto', { n }) : state.phase === 'entered' ? '' : t('turn.stayed'));
}

function end({ state, busy }) {
  const { key, again } = ending(state);
  text($('end-title'), t(`end.${key}.title`));
  text($('end-text'), t(`end.${key}.text`));
  show($('again'), again);
  joining($('again'), 'end.again', busy);
}

let saidTurn = '';
let saidLink = '';
let saidState = '';
let saidPosition = null;
let saidJoin = false;
let saidNumber = null;

// speak says the news to screen readers: the turn and changes of state at once, the
// position when it moved and some time has passed.
export function speak({ state, now, pill, busy }, speaker) {
  if (state.turn && state.turn.token !== saidTurn) {
    saidTurn = state.turn.token;
    speaker.say(t('say.turn', { left: spoken(state.turn.expires - now) }));
    return;
  }
  if (state.number && state.number.seq !== saidNumber) {
    saidNumber = state.number.seq;
    speaker.say(t('number.say', { n: saidNumber, text: t(`number.${outcome(state.number)}.text`) }));
    return;
  }
  const trouble = pill === 'retry' || pill === 'offline' ? pill : pill === 'live' || pill === 'checking' ? '' : saidLink;
  if (trouble !== saidLink) {
    saidLink = trouble;
    if (trouble !== '') speaker.say(t(trouble === 'retry' ? 'link.retrying' : 'link.offline'));
  }
  const joins = busy.join?.until > 0;
  if (joins && !saidJoin) speaker.say(t('join.busy'));
  saidJoin = joins;
  const shown = state.phase === 'waiting' ? `${state.event?.state} ${state.away}` : '';
  if (shown !== saidState) {
    const first = saidState === '';
    saidState = shown;
    if (!first && state.away) speaker.say(t('away.text'));
    else if (!first && state.event?.state === 'paused') speaker.say(pauseText(state.event.reason));
  }
  if (state.phase === 'waiting' && state.position !== saidPosition) {
    const range = estimate(state.eta, state.p90);
    const before = speaker.last;
    speaker.sometimes(t('say.position', {
      position: number(state.position), estimate: range && t('say.estimate', { estimate: range }),
    }).trim());
    if (speaker.last !== before) saidPosition = state.position;
  }
}
