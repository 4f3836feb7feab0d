// What a fan's page knows, and how each message changes it. Plain values and one
// pure function: the same messages in the same order give the same page.

// nothing is known before the first answer.
export const nothing = Object.freeze({
  event: null, // the public event, as it was last told
  missing: false, // there is no such event
  phase: 'unknown', // unknown, none, lobby, queued, numbered, waiting, admitted, entered, guest (of a friend who buys) or ended
  position: null, // the least so far
  waiting: null,
  lane: null, // the name of the line that this place is in, where the event has several
  first: null, // the position this place began with
  eta: null,
  p90: null,
  party: null, // {members, size, buys, turn, ends}: the friends who share this place, and their turn
  turn: null, // {token, expires, redirect}
  number: null, // {seq, winner}, where people are numbered
  end: null, // {state, turn, friends}: how the place ended, whether its turn had come, and whether friends keep it
  away: false, // the service says that its store does not answer
});

// soldOutNow is the reason by which a server says that the last piece is paid.
const soldOutNow = 'sold_out';

// away is the reason by which a server says that its store is away.
const away = 'store_unavailable';

const least = (a, b) => (a === null ? b : Math.min(a, b));

const finite = (n) => (typeof n === 'number' && Number.isFinite(n) ? n : null);

// reduce takes in one message. Those that start with a capital are the page's own,
// all others come from the server; an unknown one changes nothing.
export function reduce(s, m) {
  switch (m.type) {
    case 'Event': // from a memory that a store which is away does not empty
      return { ...s, event: m.event, missing: false };
    case 'Connecting': // a server whose store is away says so at once
      return s.away ? { ...s, away: false } : s;
    case 'Missing':
      return { ...s, missing: true };
    case 'Remembered': // of an earlier visit of this device
      return { ...fresh(s), phase: s.phase, position: finite(m.least), first: finite(m.first) };
    case 'Nobody': // no place here
      return { ...fresh(s), phase: 'none' };
    case 'Place':
      return { ...place(m.created ? fresh(s) : s, m.place), away: false };
    case 'result':
      return numbered(s, m);
    case 'position':
      return position(s.phase === 'waiting' || s.phase === 'unknown' ? s : { ...fresh(s), party: s.party }, m);
    case 'party':
      return partied(s, m);
    case 'admitted':
      return {
        ...s, phase: s.phase === 'entered' ? 'entered' : 'admitted', end: null,
        turn: turn(m),
      };
    case 'event':
      return {
        ...s, away: m.reason === away,
        event: s.event && {
          ...s.event, ...(m.reason === soldOutNow ? { seats_left: 0 } : {}), state: m.state ?? s.event.state,
          reason: m.reason === away ? s.event.reason : m.reason, since: m.reason === away ? s.event.since : m.since,
          message: m.message,
        },
      };
    case 'ended':
      return ended(s, m.state);
    default:
      return s;
  }
}

// fresh forgets the place, not the event.
function fresh(s) {
  return { ...nothing, event: s.event, missing: s.missing, away: s.away };
}

// partied takes over how the party is. While it is the turn of one in which another buys,
// this person is a guest; the answer of a call says nothing of that turn, which goes on.
function partied(s, m) {
  if (!(m.members >= 1)) return { ...s, party: null };
  const inside = m.state === 'admitted' || m.state === 'entered' ? m.state : null;
  const goes = s.phase === 'guest' && m.state === undefined ? s.party : null;
  const turn = { turn: goes?.turn ?? inside, ends: goes?.ends ?? Date.parse(m.expires_at ?? '') };
  const party = { members: m.members, size: m.size, buys: m.you_buy === true, ...turn };
  return inside && !party.buys ? { ...s, party, phase: 'guest', turn: null, end: null } : { ...s, party };
}

function turn(m) {
  return { token: m.entry_token, expires: Date.parse(m.expires_at), redirect: m.redirect_url };
}

function position(s, m) {
  const at = finite(m.position);
  if (at === null || at < 1) return s;
  const now = least(s.position, at);
  const event = s.event && { ...s.event };
  if (event) {
    const { lane = s.lane, rate_per_s: rate } = m;
    if (finite(rate) !== null && !lane) event.rate_per_s = rate;
    else if (finite(rate) !== null) event.lanes = event.lanes?.map((l) => (l.name === lane ? { ...l, rate_per_s: rate } : l));
    if (finite(m.seats_left) !== null) event.seats_left = m.seats_left;
  }
  return {
    ...s, event, phase: 'waiting', position: now, first: s.first === null ? at : Math.max(s.first, now),
    lane: m.lane ?? s.lane, waiting: Math.max(finite(m.waiting) ?? now, now), eta: finite(m.eta_s), p90: finite(m.eta_p90_s),
    turn: null, end: null,
  };
}

// numbered is whoever has a number; it never changes.
function numbered(s, { seq, winner }) {
  if (!(seq >= 1)) return s;
  return { ...fresh(s), phase: 'numbered', number: { seq, winner: winner === true } };
}

// told takes over what an answer about a place says of the event.
function told(s, p) {
  if (!s.event || !p.event_state) return s;
  return { ...s, event: { ...s.event, state: p.event_state, reason: p.reason, since: p.since } };
}

function place(before, p) {
  const s = { ...before, party: before.party && null };
  const now = placed(s, p);
  return p.party ? partied(now, { ...p.party, state: p.state, expires_at: p.expires_at }) : now;
}

function placed(s, p) {
  if (p.status === 'numbered') return numbered(s, p);
  if (p.status) return s.phase === 'numbered' ? s : { ...fresh(s), phase: 'queued' };
  switch (p.state) {
    case 'lobby':
      return { ...told(s, p), phase: 'lobby', waiting: finite(p.waiting), turn: null, end: null };
    case 'waiting': {
      const back = ['admitted', 'entered', 'guest', 'ended'].includes(s.phase) ? fresh(s) : s;
      return position({ ...told(back, p), phase: 'waiting', turn: null, end: null }, p);
    }
    case 'admitted':
    case 'entered':
      return p.entry_token ? { ...s, phase: p.state, turn: turn(p), end: null } : s;
    case 'completed':
    case 'expired':
    case 'left':
    case 'blocked':
      return ended(s, p.state);
    default:
      return s;
  }
}

function ended(s, state) {
  const had = s.turn !== null || ['admitted', 'entered', 'guest'].includes(s.phase);
  return { ...fresh(s), phase: 'ended', end: { state, turn: had || s.end?.turn === true, friends: s.party?.members > 1 || s.end?.friends === true } };
}

// ahead is how many people stand before, or null while that is not known.
export const ahead = (s) => (s.position === null ? null : s.position - 1);

// line is what moves the place on: the person's lane, or else the event. Its rate is 0
// where nobody comes in.
export const line = (s) => s.event?.lanes?.find((l) => l.name === s.lane) ?? s.event;

// progress is how much of the way is done, 0 to 1. It never falls, as the position
// never grows.
export function progress(s) {
  if (s.position === null || s.first === null) return 0;
  return s.first <= 1 ? 1 : (s.first - s.position) / (s.first - 1);
}

// soldOut tells whether nothing is left to buy.
export const soldOut = (s) => s.event?.seats_left === 0;

// isDraw tells whether the places of those who come early are drawn.
export const isDraw = (s) => s.event?.order === 'draw';

// undrawn tells whether everybody who comes is still in the draw.
export const undrawn = (s) => isDraw(s) && s.event.state === 'lobby' && !s.event.draw?.closed_at;

// mayCheck tells whether this place may have been drawn, and all of the draw is out.
export const mayCheck = (s) => isDraw(s) && Boolean(s.event.draw?.seed) && ['waiting', 'admitted', 'entered'].includes(s.phase);

// opening is the moment people wait for, {at, what}: "lobby" is when they may join,
// "open" when they are let in; null where it has come or is not known.
export function opening(event, now) {
  if (!event) return null;
  const lobby = Date.parse(event.lobby_opens_at ?? '');
  const open = Date.parse(event.opens_at ?? '');
  if (event.state === 'scheduled' && lobby > now) return { at: lobby, what: 'lobby' };
  if ((event.state === 'scheduled' || event.state === 'lobby') && open > now) return { at: open, what: 'open' };
  return null;
}

// lined tells whether there is a line: tokens and numbers are asked for without one.
const lined = (event) => event.mode !== 'instant' && event.mode !== 'buffered';

// mayJoin is what the page offers; the server decides. An event whose time has come
// by the server's clock is tried before we heard of it.
export function mayJoin(event, now) {
  switch (event?.state) {
    case 'lobby':
      return lined(event); // there is nothing to stand in before it opens
    case 'open':
    case 'paused':
      return true;
    case 'scheduled': {
      const lobby = lined(event) ? event.lobby_opens_at : null;
      const from = Date.parse(lobby ?? event.opens_at ?? '');
      return from <= now;
    }
    default:
      return false;
  }
}

// panel is which part of the waiting page is shown.
export function panel(s, now) {
  if (s.missing) return 'missing';
  if (s.phase === 'ended') return 'end';
  if (s.phase === 'queued' || s.phase === 'numbered') return 'number';
  if (s.phase === 'guest') return 'friend';
  if (s.phase === 'admitted' || s.phase === 'entered') return 'turn';
  if (!s.event || s.phase === 'unknown') return 'load';
  if (s.phase === 'waiting' || s.phase === 'lobby') return s.event.state === 'closed' ? 'end' : 'wait';
  if (s.event.state === 'closed' || s.event.state === 'draining') return 'end';
  return mayJoin(s.event, now) ? 'join' : 'before';
}

// ending names the sentences of the panel "end", and whether joining again is of use.
export function ending(s) {
  const state = s.event?.state;
  if (s.end?.state === 'blocked') return { key: 'blocked', again: false };
  if (state === 'closed') return { key: soldOut(s) ? 'soldout' : 'closed', again: false };
  if (s.end === null) return { key: state === 'draining' ? 'drained' : 'closed', again: false };
  let key = s.end.state === 'expired' && s.end.turn ? 'turn' : s.end.state;
  if (key === 'left' && s.end.friends) key = 'parted';
  else if (key === 'left' && undrawn(s)) key = 'undrawn';
  return { key, again: state !== 'draining' };
}
