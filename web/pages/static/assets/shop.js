// The shop page: choose, hold, pay.

import { call, insist, randomKey } from './api.js';
import { Backoff, jitter } from './backoff.js';
import { attempt, Changes, follow, isRunning, panel, prune, seatsOf, takes } from './basket.js';
import { ServerClock } from './clock.js';
import { $, eachSecond, eventOf, focusHeading, panels, translate } from './dom.js';
import { look } from './event.js';
import { isList, ItemList } from './items.js';
import { comeback, Pill } from './link.js';
import { Live } from './live.js';
import { legend, SeatMap } from './seats.js';
import { draw } from './shop-view.js';
import { attemptKey, creditKey, device, placeKey, reservationKey, tab, turnKey } from './store.js';
import { refusal, t } from './strings.js';

// refresh is the time between two looks at the map, and told the one where a socket
// says what changes.
const refresh = 3000;
const told = 30000;
// atOnce is the most that the page lets anybody choose, until the map has said how
// many one person may have.
const atOnce = 10;

const event = eventOf();
const api = `/v1/events/${event}`;
const clock = new ServerClock();
const pill = new Pill($('link'));
const root = $('main');

const s = {
  event: null, gate: 'load', turn: readTurn(), map: null, etag: undefined, seats: new Map(), chosen: new Set(),
  most: atOnce, reservation: null, busy: '', retryAt: 0, note: '', good: false, since: 0,
};
let mapTimer;
let followTimer;
let looks = 0;
const changes = new Changes();
let listening = false; // this socket was asked to say what changes on the map
let telling = false; // and does

const seatMap = new SeatMap($('sections'), $('section-nav'), toggle);
const itemList = new ItemList($('item-list'), toggle);
const live = new Live({
  address: api,
  token: () => device.get(placeKey(event))?.token,
  said: heard,
  status: (kind, until) => {
    if (kind !== 'live') deaf();
    pill.set(kind, until);
  },
  ask: askPlace,
  greeted: () => {
    deaf();
    listen();
  },
});

function readTurn() {
  const kept = tab.get(turnKey(event));
  return kept?.token ? { token: kept.token, expires: Date.parse(kept.expires_at) } : null;
}

function takeTurn(place) {
  s.turn = { token: place.entry_token, expires: Date.parse(place.expires_at) };
  tab.set(turnKey(event), { token: place.entry_token, expires_at: place.expires_at });
  s.gate = 'in';
}

// who proves the person: the entry token, and the place token beside it.
const who = () => ({ entry: s.turn?.token, token: device.get(placeKey(event))?.token });

function heard(m) {
  switch (m.type) {
    case 'admitted':
      takeTurn(m);
      break;
    case 'position':
      s.gate = 'wait';
      break;
    case 'ended':
      if (s.gate === 'in') s.gate = 'over';
      break;
    case 'reservation':
      setReservation(takes(s.reservation, m));
      break;
    case 'seats':
      changed(m);
      break;
    default:
      return;
  }
  render();
}

// askPlace finds out whether it is this person's turn, and fetches the token again
// where this tab does not have it.
async function askPlace(attemptNumber) {
  try {
    const answer = await call('GET', `${api}/entries/me`, { token: who().token, attempt: attemptNumber });
    const place = answer.body;
    if (place.entry_token) takeTurn(place);
    else s.gate = place.state === 'waiting' || place.state === 'lobby' ? 'wait' : 'over';
    render();
    return answer.wait;
  } catch (err) {
    if (err.status === 404 || err.status === 401 || err.status === 403) {
      // No place is known here; a turn that this tab holds may still be good.
      if (err.status !== 401) s.gate = 'over';
      else s.gate = s.turn && s.turn.expires > clock.now() ? 'in' : 'wait';
      err.over = true;
      render();
    }
    throw err;
  }
}

function setReservation(r) {
  const before = s.reservation;
  s.reservation = r;
  if (r === before) return;
  if (r && before?.status !== r.status) s.since = clock.now();
  if (r && s.turn) device.set(reservationKey(event), { id: r.reservation_id, turn: s.turn.token.slice(-16) });
  if (!r) device.remove(reservationKey(event));
  if (r?.status === 'payment_pending') followUp();
}

// followUp asks for the outcome, in case that no connection brings it.
function followUp() {
  clearTimeout(followTimer);
  if (!isRunning(s.reservation)) return;
  followTimer = setTimeout(async () => {
    if (!isRunning(s.reservation)) return;
    await readReservation(s.reservation.reservation_id).catch(() => {});
    followUp();
  }, follow(looks++) + jitter(0, { base: 500 }));
}

async function readReservation(id) {
  const answer = await call('GET', `${api}/reservations/${encodeURIComponent(id)}`, who());
  setReservation(s.reservation ? takes(s.reservation, answer.body) : answer.body);
  render();
}

// resume shows a reservation of an earlier visit: while it runs, or as long as the
// turn it was made with is the one at hand.
async function resume() {
  const kept = device.get(reservationKey(event));
  if (!kept?.id) return;
  try {
    const { body } = await insist((n) => call('GET', `${api}/reservations/${encodeURIComponent(kept.id)}`, { ...who(), attempt: n }), { tries: 4 });
    const ours = !s.turn || kept.turn === s.turn.token.slice(-16);
    if (isRunning(body) || (ours && body.status === 'paid')) setReservation(body);
    else device.remove(reservationKey(event));
  } catch (err) {
    if (err.status === 404) device.remove(reservationKey(event));
  }
}

async function readMap() {
  const answer = await call('GET', `${api}/seats`, { etag: s.etag });
  if (answer.status === 304) return;
  s.etag = answer.headers.get('ETag') ?? undefined;
  s.map = answer.body;
  changes.apply(s.map);
  if (s.map.per_user) s.most = Math.min(s.most, s.map.per_user);
  settle();
}

// settle brings the choice up to the map.
function settle() {
  s.seats = seatsOf(s.map);
  const { kept, gone } = prune(s.seats, s.chosen);
  s.chosen = new Set(kept);
  if (gone.length > 0 && s.busy !== 'reserve') say(lostOnes(gone));
}

// listen has the socket say what changes on the map, while somebody chooses from it.
function listen() {
  const want = Boolean(s.map) && panel(s) === 'choose';
  if (want === listening) return;
  if (!live.send(want ? { type: 'seats', version: s.etag ?? '' } : { type: 'seats', stop: true })) return;
  listening = want;
  telling = telling && want;
}

// deaf is for a socket that says nothing of the map, or is no more.
function deaf() {
  if (telling) planMap(jitter(0, { base: refresh }));
  listening = telling = false;
}

// changed takes in what changed, or reads the map again, not all at the same moment.
function changed(m) {
  const first = listening && !telling;
  telling = listening;
  if (m.reload) planMap(jitter(0, { base: 2000 }));
  else if (first) planMap(told + jitter(0, { base: 1000 }));
  if (m.reload || !s.map) return;
  changes.take(s.map, m);
  s.etag = `W/"${m.version}"`;
  settle();
}

// lostOnes says which of the chosen went to somebody else.
function lostOnes(gone) {
  const names = gone.map((id) => s.seats.get(id)?.item?.name || id);
  return t(isList(s.map) ? 'no.items_full' : 'no.seats_taken', { seats: names.join(', ') });
}

// keepMap refreshes the map while somebody chooses from it.
async function keepMap(soon = refresh) {
  clearTimeout(mapTimer);
  let wait = soon;
  try {
    if (panel(s) === 'choose' || !s.map) await readMap();
  } catch (err) {
    if (err.code === 'wrong_mode') {
      s.map = { sections: [], items: [] };
      s.note = t('shop.nothing');
    }
    wait = Math.max(err.wait ?? 0, soon * 2);
  }
  render();
  if (telling) wait = Math.max(wait, told);
  if (document.visibilityState === 'visible') planMap(wait + jitter(0, { base: 1000 }));
}

function planMap(ms) {
  clearTimeout(mapTimer);
  mapTimer = setTimeout(keepMap, ms);
}

function toggle(id) {
  s.note = '';
  if (s.chosen.has(id)) s.chosen.delete(id);
  else if (s.chosen.size >= s.most) say(t(isList(s.map) ? 'shop.list.most' : 'shop.most', { n: s.most }));
  else s.chosen.add(id);
  render();
}

// say shows a sentence on the page, where it is read aloud, too.
function say(sentence, good = false) {
  s.note = sentence;
  s.good = good;
}

// deed does one thing that must happen once: its key is kept until the answer is
// known, over retries and also over a refresh.
async function deed(name, wish, send) {
  const kept = attempt(tab.get(attemptKey(event, name)), wish, randomKey);
  tab.set(attemptKey(event, name), kept);
  s.busy = name;
  s.note = '';
  render();
  try {
    const answer = await insist((n) => send(kept.key, n), {
      tries: 7,
      backoff: new Backoff({ base: 700, cap: 8000 }),
      waiting: (ms, err) => {
        keepCredit(err);
        s.retryAt = performance.now() + ms;
        render();
      },
    });
    tab.remove(attemptKey(event, name));
    return answer;
  } catch (err) {
    keepCredit(err);
    if (!err.passing) tab.remove(attemptKey(event, name)); // a definite no
    throw err;
  } finally {
    s.busy = '';
    s.retryAt = 0;
  }
}

// keepCredit keeps what makes a fault of the service good, for the waiting page.
function keepCredit(err) {
  if (err.credit) device.set(creditKey(event), err.credit);
}

async function reserve(wish) {
  if (s.busy) return;
  try {
    const answer = await deed('reserve', wish, (key, n) =>
      call('POST', `${api}/reservations`, { entry: s.turn?.token, key, body: wish, attempt: n }));
    s.chosen.clear();
    setReservation(answer.body);
    askPlace().catch(() => {}); // the time inside has begun
  } catch (err) {
    await refused(err, wish);
  }
  render();
}

// refused says what happened and what to do, and does what the page can do itself.
async function refused(err, wish) {
  const values = { detail: err.fields?.map((f) => f.detail).join('; ') ?? '' };
  let sentence = err.credit ? t('no.credit') : refusal(err.code, values);
  switch (err.code) {
    case 'seat_taken': {
      await readMap().catch(() => {});
      const { gone } = prune(s.seats, wish.seats ?? []);
      if (gone.length > 0) sentence = lostOnes(gone);
      break;
    }
    case 'already_reserved':
      if (wish?.seats?.length > 1 && !isList(s.map)) s.most = Math.min(s.most, wish.seats.length - 1);
      break;
    case 'sold_out':
    case 'contended': {
      await readMap().catch(() => {});
      const { gone } = prune(s.seats, wish.seats ?? []);
      if (gone.length > 0) sentence = lostOnes(gone);
      break;
    }
    case 'token_expired':
    case 'token_invalid':
    case 'token_required':
    case 'token_revoked':
    case 'token_wrong_event':
      s.turn = null;
      tab.remove(turnKey(event));
      await askPlace().catch(() => {});
      break;
    default:
  }
  say(sentence);
}

async function pay() {
  if (s.busy || !s.reservation) return;
  const id = s.reservation.reservation_id;
  const method = $('method').value;
  try {
    const answer = await deed('pay', { id, method }, (key, n) =>
      call('POST', `${api}/reservations/${encodeURIComponent(id)}/payment`, { ...who(), key, body: { method }, attempt: n }));
    looks = 0;
    setReservation(takes(s.reservation, answer.body));
  } catch (err) {
    say(err.credit ? t('no.credit') : refusal(err.code));
    readReservation(id).catch(() => {});
  }
  render();
}

async function cancel() {
  if (s.busy || !s.reservation) return;
  const id = s.reservation.reservation_id;
  s.busy = 'cancel';
  render();
  try {
    await insist((n) => call('DELETE', `${api}/reservations/${encodeURIComponent(id)}`, { ...who(), attempt: n }), { tries: 4 });
    setReservation(null);
    say(t('lost.cancelled.text'), true);
    keepMap(0);
  } catch (err) {
    say(refusal(err.code));
    readReservation(id).catch(() => {});
  }
  s.busy = '';
  render();
}

function again() {
  setReservation(null);
  s.note = '';
  askPlace().catch(() => {});
  keepMap(0);
  render();
}

let shown = '';
function render() {
  pill.draw();
  listen();
  const name = draw(s, clock.now(), isList(s.map) ? itemList : seatMap);
  panels(root, name);
  if (name === shown) return;
  const first = shown === '' || shown === 'load';
  shown = name;
  scrollTo({ top: 0 });
  if (!first) focusHeading(root);
}

function tick() {
  const r = s.reservation;
  const now = clock.now();
  // The service ends a hold; what it says counts.
  if (r?.status === 'held' && Date.parse(r.expires_at) + 500 < now) readReservation(r.reservation_id).catch(() => {});
  if (s.gate === 'in' && s.turn && s.turn.expires + 500 < now && !isRunning(r) && live.running) askPlace().catch(() => {});
  render();
}

async function start() {
  translate();
  legend($('legend'));
  $('to-wait').href = $('to-wait-over').href = `/e/${event}`;
  $('reserve').addEventListener('click', () => {
    if (s.chosen.size > 0) reserve({ seats: [...s.chosen] });
  });
  $('clear').addEventListener('click', () => {
    s.chosen.clear();
    render();
  });
  $('best').addEventListener('click', () => reserve({ quantity: Number($('quantity').value) }));
  $('quantity').addEventListener('change', render);
  $('pay').addEventListener('click', pay);
  $('cancel').addEventListener('click', cancel);
  $('lost-again').addEventListener('click', again);
  comeback({
    back: () => {
      live.nudge();
      keepMap();
      if (isRunning(s.reservation)) readReservation(s.reservation.reservation_id).catch(() => {});
    },
    gone: () => live.offline(),
  });
  eachSecond(clock, tick);
  insist((n) => look(event, clock, n).then((e) => {
    s.event = e;
    render();
  }), { tries: Infinity }).catch(() => {
    s.note = refusal('not_found');
    render();
  });
  await insist(askPlace, { tries: 5, backoff: new Backoff({ base: 500 }) }).catch((err) => {
    if (!err.over && s.turn) s.gate = 'in'; // what follows will say
  });
  await resume();
  keepMap();
  live.start();
}

start();

