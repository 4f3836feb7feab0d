// The waiting page: join, wait, come in.

import { insist, call, pause, randomKey } from './api.js';
import { Backoff, jitter } from './backoff.js';
import { proved } from './challenge.js';
import { Choice, chooses } from './choice.js';
import { ServerClock } from './clock.js';
import { $, eachSecond, eventOf, focusHeading, panels, Speaker, translate } from './dom.js';
import { forget as forgetDraw, keep as keepDraw, verify } from './drawn.js';
import { look, nextLook } from './event.js';
import { keepHead } from './heads.js';
import { comeback, Pill } from './link.js';
import { Live } from './live.js';
import { Party } from './party.js';
import { isDraw, nothing, opening, reduce } from './place.js';
import { attemptKey, creditKey, device, headsKey, placeKey } from './store.js';
import { has } from './strings.js';
import { go, wasSent } from './turn.js';
import { draw, speak } from './wait-view.js';

// seconds is how long a person has to say "not yet" before being taken to the shop.
const seconds = 5;

const event = eventOf();
const api = `/v1/events/${event}`;
const asked = new URLSearchParams(location.search);
const back = asked.get('return_to');
// The site saw no cookie of the turn that was just taken there.
const noCookie = asked.get('cookies') === 'blocked';
const query = back ? `?return_to=${encodeURIComponent(back)}` : '';

const clock = new ServerClock();
const pill = new Pill($('link'));
const speaker = new Speaker($('say'));
const choice = new Choice(speaker, asked.get('lane'));
const party = new Party(api, {
  token: () => mine.token,
  kept: (told) => {
    keepToken(told, false);
    take({ type: 'party', ...told });
    askPlace().catch(() => {}); // what else is different now
  },
  left: () => {
    take({ type: 'ended', state: 'left' });
    focusHeading(root);
  },
});
const root = $('main');

let state = nothing;
let mine = device.get(placeKey(event)) ?? {};
let looking;
const busy = { join: null, leave: null }; // {retryAt} while a call runs
const leap = { at: null, off: false }; // the redirect: when, and whether it was called off
let note = '';
let entry; // the id of this place, by the last answer
let proof = null; // what the check of the draw found: {key, values, fair, busy}
let fetching; // the one question after the draw
let told = -Infinity; // when a connection last told of the event

const live = new Live({
  address: api,
  token: () => mine.token,
  said: take,
  status: (kind, until) => {
    const before = pill.kind;
    pill.set(kind, until);
    if (kind === 'connecting') take({ type: 'Connecting' });
    // What changed while nobody told us; not all at once, as all lost it together.
    if (kind === 'live' && before !== 'live' && before !== 'idle') lookSoon(jitter(0, { base: 1500 }));
    render();
  },
  ask: askPlace,
});

// take is the one way by which anything changes.
function take(message) {
  if (message.type === 'event') told = performance.now();
  if (message.type === 'Stranger') {
    forget();
    note = 'end.proof';
    message = { type: 'Nobody' };
  }
  const before = state;
  state = reduce(state, message);
  if (state === before) return;
  pill.away = state.away;
  remember();
  arrive(before);
  render();
}

// afterDraw is the most, in ms, that a page waits with its question after the draw.
const afterDraw = 20000;

// arrive does what is due when a phase begins.
function arrive(before) {
  if (isDraw(state)) drawn(before);
  const inside = state.phase === 'admitted' || state.phase === 'entered';
  if (['ended', 'none', 'numbered'].includes(state.phase)) live.stop();
  if (!inside) {
    leap.at = null;
    return;
  }
  if (state.turn.token === before.turn?.token) return;
  leap.off = noCookie || state.phase === 'entered' || wasSent(event, state.turn);
  if (noCookie) note = 'turn.cookies';
  leap.at = leap.off ? null : performance.now() + seconds * 1000;
  if ($('leave-dialog').open) $('leave-dialog').close();
  // The socket does not know where this person came from; the answer here does.
  if (back && before.phase !== 'unknown') askPlace().catch(() => {});
}

// drawn follows a draw: it keeps what the draw is bound to, and asks once for the
// drawn place, whose receipt carries where it stands. All learn their places in one
// moment, so each asks at a time of its own.
function drawn(before) {
  if (state.phase === 'lobby' && mine.token) keepDraw(event, state.event.draw, mine.born);
  if (before.phase !== 'lobby' || state.phase === 'lobby' || state.phase === 'ended') return;
  clearTimeout(fetching);
  fetching = setTimeout(() => {
    lookSoon(0);
    if (mine.token) askPlace().catch(() => {});
  }, jitter(0, { base: afterDraw, cap: afterDraw }));
}

async function checkDraw() {
  if (proof?.busy) return;
  proof = { key: 'draw.checking', busy: true };
  render();
  proof = await verify({ event, entry, token: mine.token, born: mine.born });
  render();
}

// remember keeps the least position, so that a refresh never shows a larger one.
function remember() {
  if (!mine.token || state.phase !== 'waiting') return;
  if (mine.least === state.position && mine.first === state.first) return;
  mine = { ...mine, least: state.position, first: state.first };
  device.set(placeKey(event), mine);
}

function forget() {
  mine = {};
  device.remove(placeKey(event));
  forgetDraw(event);
}

// keepToken takes the proof of place out of an answer. created begins a new place.
function keepToken(place, created) {
  entry = place.entry_id ?? entry;
  if (created) proof = null;
  if (!place.place_token) return;
  if (created) mine = { token: place.place_token, born: Date.now() };
  else if (mine.token === place.place_token) return;
  else mine = { ...mine, born: mine.born ?? Date.now(), token: place.place_token };
  device.set(placeKey(event), mine);
}

let answered; // {token, etag, place}: the last answer to askPlace

// askPlace asks over HTTP where this person stands and answers with the time until
// the next question.
async function askPlace(attempt) {
  try {
    const { token } = mine;
    const etag = answered?.token === token ? answered.etag : undefined;
    const answer = await call('GET', `${api}/entries/me${query}`, { token, attempt, etag });
    if (answer.status !== 304) answered = { token, etag: answer.headers.get('ETag') ?? undefined, place: answer.body };
    keepToken(answered.place, false);
    take({ type: 'Place', place: answered.place });
    return answer.wait;
  } catch (err) {
    if (err.status === 404 && device.get(attemptKey(event, 'number'))) {
      // The service has lost that this device asked for a number, or could not take it:
      // under the same key it is the same number.
      take({ type: 'Nobody' });
      join();
      err.over = true;
      throw err;
    }
    const over = { 404: { type: 'ended', state: 'expired' }, 401: { type: 'Stranger' } }[err.status] ??
      (err.code === 'blocked' && { type: 'ended', state: 'blocked' });
    if (over) {
      take(over);
      err.over = true;
    }
    throw err;
  }
}

// issued is the place of somebody who has been given a token.
function issued(answer) {
  return { ...answer, state: 'admitted' };
}

// numberKey names this device's request for a number, over all tries and visits.
function numberKey() {
  const name = attemptKey(event, 'number');
  const key = device.get(name) ?? randomKey();
  device.set(name, key);
  return key;
}

// comeAgain uses a credit that the shop page has kept after a fault of the service; a
// credit that is refused for good is forgotten, and its holder joins as anybody does.
async function comeAgain(attempt) {
  const credit = device.get(creditKey(event));
  if (!credit || !mine.token) return undefined;
  for (;;) {
    try {
      const answer = await call('POST', `${api}/credits${query}`, { token: mine.token, attempt, body: { credit } });
      if (answer.status === 201) device.remove(creditKey(event));
      return answer;
    } catch (err) {
      if (err.passing) throw err;
      if (err.code === 'full') {
        await pause(err.wait || 5000); // the next place is kept for who asks again
        continue;
      }
      device.remove(creditKey(event));
      return undefined;
    }
  }
}

// bodyOf is a body where there is something to say.
const bodyOf = (said) => (Object.keys(said).length > 0 ? said : undefined);

// again joins anew; where there is something to choose, it shows the choice first.
function again() {
  if (!chooses(state.event)) {
    join();
    return;
  }
  take({ type: 'Nobody' });
  focusHeading(root);
}

// join takes a place, or finds the one this device has; where there is no line, it
// asks for a token until there is a definite answer.
async function join() {
  if (busy.join || !choice.settled(state.event)) return;
  busy.join = { until: 0 };
  note = '';
  render();
  const instant = state.event?.mode === 'instant';
  const key = state.event?.mode === 'buffered' || device.get(attemptKey(event, 'number')) ? numberKey() : undefined;
  const said = choice.said(state.event);
  try {
    const answer = await insist(
      async (attempt) => (await comeAgain(attempt)) ??
        proved((challenge) => call('POST', `${api}/${instant ? 'tokens' : 'entries'}${query}`, {
          token: mine.token, attempt, key, body: bodyOf({ ...said, ...(challenge && { challenge }) }),
        })),
      {
        tries: Infinity,
        backoff: new Backoff({ base: 1000, cap: 20000 }),
        waiting: (ms, err) => {
          busy.join.until = performance.now() + ms;
          busy.join.why = err.code;
          render();
        },
      },
    );
    const created = answer.status === 201;
    keepToken(answer.body, created);
    busy.join = null;
    take({ type: 'Place', place: instant ? issued(answer.body) : answer.body, created });
    if (state.phase !== 'numbered') live.start();
    focusHeading(root);
  } catch (err) {
    busy.join = null;
    refused(err);
  }
  render();
}

function refused(err) {
  if (err.code === 'blocked') take({ type: 'ended', state: 'blocked' });
  else if (err.code === 'token_required') note = 'end.identity.text';
  else if (err.code === 'sold_out') note = 'issue.sold_out';
  else if (!choice.refused(err, state.event, clock.now())) note = has(`no.${err.reason}`) ? `no.${err.reason}` : `no.${err.code}`;
  if (err.code === 'not_open' || err.code === 'closed') lookSoon(Math.max(err.wait, 1000));
}

async function leave() {
  if (busy.leave) return;
  busy.leave = {};
  note = '';
  try {
    await insist((attempt) => call('DELETE', `${api}/entries/me`, { token: mine.token, attempt }), { tries: 4 });
    take({ type: 'ended', state: 'left' });
    focusHeading(root);
  } catch {
    note = 'leave.failed';
  }
  busy.leave = null;
  render();
}

// keepTold holds on to what a connection has just told of the event: an answer on
// its way, or out of a cache, may be older than that.
function keepTold(seen) {
  const cached = 6000;
  if (!state.event || performance.now() - told > cached) return seen;
  const { state: is, reason, since, message } = state.event;
  return { ...seen, state: is, reason, since, message };
}

// lookAround keeps the public event fresh, often before joining, rarely after.
let looks = 0;
async function lookAround() {
  clearTimeout(looking);
  let ms;
  try {
    const seen = await look(event, clock, looks + 1);
    heads(seen.log);
    take({ type: 'Event', event: keepTold(seen) });
    looks = 0;
    ms = nextLook(state.event, clock.now());
    if (live.running) ms = Math.max(ms, opening(state.event, clock.now()) ? 0 : 60000);
  } catch (err) {
    if (err.status === 404) {
      take({ type: 'Missing' });
      return;
    }
    looks++;
    ms = new Backoff({ base: 2000, cap: 30000 });
    ms.attempt = looks;
    ms = ms.next(err.wait);
    render();
  }
  lookSoon(ms);
}

// heads keeps the head of the admission log that this person was shown.
function heads(head) {
  const kept = device.get(headsKey(event)) ?? [];
  const now = keepHead(Array.isArray(kept) ? kept : [], head);
  if (now !== kept) device.set(headsKey(event), now);
}

function lookSoon(ms) {
  clearTimeout(looking);
  looking = setTimeout(lookAround, ms);
}

function render() {
  const view = { state, now: clock.now(), clockKnown: clock.known, busy, note, leap, proof, choice, pill: pill.kind, failing: looks > 0 };
  const name = draw(view);
  party.draw(state, view.now);
  if (panels(root, name) && ['turn', 'friend', 'end'].includes(name)) focusHeading(root);
  speak(view, speaker);
}

let askedEnd = -Infinity;

// tick runs once a second: countdowns, and the way to the shop when it is due.
function tick() {
  if (clock.jumped()) lookSoon(0);
  pill.draw();
  choice.tick(clock.now());
  if (leap.at !== null && document.visibilityState !== 'visible') leap.at = performance.now() + seconds * 1000;
  if (leap.at !== null && performance.now() >= leap.at) enter();
  // The service ends a turn; where no connection says so, we ask.
  if (state.turn && clock.now() > state.turn.expires + 1000 && performance.now() > askedEnd + 5000) {
    askedEnd = performance.now();
    askPlace().catch(() => {});
  }
  render();
}

function enter() {
  if (!state.turn) return;
  leap.at = null;
  leap.off = true;
  note = 'turn.going';
  render();
  go(event, state.turn);
}

function stay() {
  leap.at = null;
  leap.off = true;
  render();
  $('enter').focus(); // the button that had it is gone
}

// start finds out who this is: a place of an earlier visit goes on by itself.
async function start() {
  translate();
  wire();
  comeback({
    back: () => {
      if (note === 'turn.going') note = ''; // back from the shop
      if (looks > 0 || !clock.known || clock.jumped() || !live.running) lookSoon(0);
      live.nudge();
    },
    gone: () => live.offline(),
  });
  eachSecond(clock, tick);
  lookAround();
  if (!mine.token) {
    take({ type: 'Nobody' });
    return;
  }
  take({ type: 'Remembered', least: mine.least, first: mine.first });
  try {
    await insist(askPlace, { tries: 3, backoff: new Backoff({ base: 500 }) });
  } catch (err) {
    if (err.over) return; // its ending is shown
  }
  if (!['ended', 'none', 'numbered'].includes(state.phase)) live.start();
}

function wire() {
  $('ask').addEventListener('submit', (e) => {
    e.preventDefault();
    join();
  });
  $('again').addEventListener('click', again);
  $('drawn-check').addEventListener('click', checkDraw);
  $('enter').addEventListener('click', enter);
  $('stay').addEventListener('click', stay);
  for (const id of ['leave', 'party-leave']) $(id).addEventListener('click', () => $('leave-dialog').showModal());
  $('leave-dialog').addEventListener('close', (e) => {
    if (e.target.returnValue === 'yes') state.party ? party.leave() : leave();
    e.target.returnValue = '';
  });
  document.addEventListener('securitypolicyviolation', (e) => {
    if (e.violatedDirective === 'form-action') {
      note = 'turn.barred';
      render();
    }
  });
  // Another tab of this device joined anew: this one is of the same place.
  addEventListener('storage', (e) => {
    if (e.key !== placeKey(event) || !e.newValue) return;
    const theirs = device.get(placeKey(event));
    if (!theirs?.token) return;
    const same = theirs.born === mine.born;
    mine = theirs;
    if (same) return; // the same visit's, perhaps with a party's token by now
    take({ type: 'Remembered', least: mine.least, first: mine.first });
    askPlace().then(() => live.start(), () => {});
  });
}

start();
