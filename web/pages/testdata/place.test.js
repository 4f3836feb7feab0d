import { ahead, ending, line, mayCheck, mayJoin, nothing, opening, panel, progress, reduce } from '/assets/place.js';
import { same, yes } from './check.js';

const open = { id: 'demo', name: 'Demo', state: 'open', rate_per_s: 10 };
const play = (...messages) => messages.reduce(reduce, nothing);
const event = { type: 'Event', event: open };
const at = (position, more) => ({ type: 'position', position, ahead: position - 1, waiting: 100, ...more });
const turn = { type: 'admitted', entry_token: 'tok', expires_at: '2026-05-01T12:05:00.000Z', redirect_url: '/e/demo/shop' };
const waiting = (position, more) => ({ type: 'Place', place: { state: 'waiting', position, ...more } });

export default {
  'the position never grows': () => {
    const s = play(event, waiting(50), at(40), at(45), at(41));
    same([s.position, ahead(s), s.first], [40, 39, 50]);
    same(play(event, { type: 'Remembered', least: 30, first: 90 }, waiting(34)).position, 30);
  },
  'whoever polls hears why the line stands, and since when': () => {
    const held = { event_state: 'paused', reason: 'database_busy', since: '2026-05-01T10:12:00.000Z' };
    let s = play(event, waiting(50, held));
    same([s.event.state, s.event.reason, s.event.since], ['paused', 'database_busy', held.since]);
    s = reduce(s, waiting(49, { event_state: 'open' }));
    same([s.event.state, s.event.reason, s.event.since, s.position], ['open', undefined, undefined, 49]);
  },
  'in an event with lanes the own line counts': () => {
    const lanes = [{ name: 'members', waiting: 3, rate_per_s: 8 }, { name: 'public', waiting: 90, rate_per_s: 2 }];
    const laned = { type: 'Event', event: { ...open, lanes } };
    let s = play(laned, waiting(50, { lane: 'public' }));
    same([s.lane, line(s).rate_per_s], ['public', 2]);
    s = reduce(s, at(49, { lane: 'public', rate_per_s: 3 }));
    same([line(s).rate_per_s, s.event.rate_per_s, s.event.lanes[0].rate_per_s], [3, 10, 8]);
    s = reduce(s, { ...laned, event: { ...laned.event, lanes: [lanes[0], { ...lanes[1], paused: true, rate_per_s: 0 }] } });
    same([s.position, line(s).paused], [49, true]);
    same([play(event, waiting(5)).lane, line(play(event, waiting(5), at(4, { rate_per_s: 7 }))).rate_per_s], [null, 7]);
    same(play(laned, waiting(5, { lane: 'public' }), { type: 'Nobody' }).lane, null);
  },
  'progress never falls': () => {
    let s = play(event, waiting(100));
    let last = 0;
    for (const p of [90, 95, 60, 80, 10, 1]) {
      s = reduce(s, at(p));
      yes(progress(s) >= last, `progress fell at ${p}`);
      last = progress(s);
    }
    same(last, 1);
    same(progress(play(event, waiting(1))), 1);
  },
  'a new place begins anew': () => {
    const s = play(event, waiting(10), at(3), { type: 'Place', created: true, place: { state: 'waiting', position: 80 } });
    same([s.position, s.first], [80, 80]);
    same(play(event, waiting(3), turn, at(70)).position, 70);
    same(play(event, waiting(3), { type: 'ended', state: 'expired' }, waiting(60)).position, 60);
  },
  'the same place found again keeps its least': () => {
    same(play(event, waiting(10), at(3), waiting(7)).position, 3);
  },
  'a position that is none changes nothing': () => {
    for (const wrong of [0, -1, NaN, '5', null, undefined]) {
      same(play(event, waiting(9), at(wrong)).position, 9);
    }
  },
  'an estimate is absent when it is not said': () => {
    same(play(event, waiting(9, { eta_s: 30, eta_p90_s: 60 }), at(8)).eta, null);
  },
  'nobody is told fewer waiting than their own position': () => {
    same(play(event, at(120)).waiting, 120);
  },
  'unknown messages are ignored': () => {
    const s = play(event, waiting(5));
    yes(reduce(s, { type: 'of a later version', position: 1 }) === s, 'an unknown message changed the page');
    yes(reduce(s, { type: 'bye' }) === s, 'bye is the connection’s');
  },
  'a number, once known, stays': () => {
    const now = Date.parse('2026-05-01T12:00:00Z');
    const asked = (more) => ({ type: 'Place', place: { request_id: 'r', ...more } });
    const queued = play(event, asked({ status: 'queued' }), asked({ status: 'processing' }));
    same([queued.phase, queued.number, panel(queued, now)], ['queued', null, 'number']);
    const told = reduce(queued, { type: 'result', seq: 1000, winner: true });
    same([told.number, panel(told, now)], [{ seq: 1000, winner: true }, 'number']);
    same(reduce(told, asked({ status: 'processing' })).number, told.number, 'an older answer took the number back');
    yes(reduce(queued, { type: 'result', seq: 0 }) === queued, 'nobody is number 0');
    same(play(event, asked({ status: 'numbered', seq: 7, winner: false })).number, { seq: 7, winner: false });
    same(['scheduled', 'lobby', 'open'].map((state) => mayJoin({ state, mode: 'buffered', lobby_opens_at: '2026-05-01T11:00:00Z' }, now)), [false, false, true]);
  },
  'a draw may be checked when all of it is out': () => {
    const drawn = (draw) => ({ type: 'Event', event: { ...open, order: 'draw', draw } });
    const lobby = { type: 'Place', place: { state: 'lobby' } };
    same(play(drawn({ commitment: 'c' }), lobby).position, null);
    yes(!mayCheck(play(drawn({ commitment: 'c', seed: 's' }), lobby)), 'nobody has a place in the lobby');
    yes(!mayCheck(play(drawn({ commitment: 'c' }), waiting(5))), 'the seed is not out');
    yes(mayCheck(play(drawn({ commitment: 'c', seed: 's' }), waiting(5))), 'all is out');
    yes(!mayCheck(play(event, waiting(5))), 'there is no draw');
  },
  'each state has its panel': () => {
    const now = Date.parse('2026-05-01T12:00:00Z');
    const of = (...m) => panel(play(...m), now);
    const set = (more) => ({ type: 'Event', event: { ...open, ...more } });
    same(of(), 'load');
    same(of({ type: 'Missing' }), 'missing');
    same(of(event, { type: 'Nobody' }), 'join');
    same(of(set({ state: 'scheduled', opens_at: '2026-05-01T12:00:01Z' }), { type: 'Nobody' }), 'before');
    same(of(set({ state: 'scheduled', opens_at: '2026-05-01T12:00:00Z' }), { type: 'Nobody' }), 'join');
    same(of(set({ state: 'scheduled' }), { type: 'Nobody' }), 'before');
    same(of(set({ state: 'draining' }), { type: 'Nobody' }), 'end');
    same(of(set({ state: 'draining' }), waiting(4)), 'wait');
    same(of(set({ state: 'closed' }), waiting(4)), 'end');
    same(of(event, waiting(4), turn), 'turn');
    same(of(event, waiting(4), turn, { type: 'ended', state: 'expired' }), 'end');
    same(of(event, { type: 'Place', place: { state: 'lobby' } }), 'wait');
  },
  'the turn of a party goes on while a call of it is answered': () => {
    const told = { type: 'party', members: 3, size: 4, you_buy: false };
    const guest = play(event, waiting(4), { ...told, state: 'admitted', expires_at: turn.expires_at });
    same([guest.phase, guest.party.ends], ['guest', Date.parse(turn.expires_at)]);
    const buys = reduce(guest, { ...told, you_buy: true });
    same([buys.party.buys, buys.party.turn, buys.party.ends], [true, 'admitted', guest.party.ends]);
  },
  'whoever leaves friends or an undrawn lobby is not told that the place is lost': () => {
    const lobby = { ...open, state: 'lobby', order: 'draw', draw: {} };
    const left = (e, members) => ending(play(
      { type: 'Event', event: e }, { type: 'Place', place: { state: 'lobby' } }, { type: 'party', members, size: 4 }, { type: 'ended', state: 'left' },
    )).key;
    same([left(lobby, 2), left(lobby, 1), left(lobby, 0)], ['parted', 'undrawn', 'undrawn']);
    same([left({ ...lobby, draw: { closed_at: 'now' } }, 0), left(open, 0)], ['left', 'left']);
  },
  'each end says what happened and whether to join again': () => {
    const of = (state, ...m) => ending(play({ type: 'Event', event: { ...open, ...state } }, ...m));
    const end = (state) => ({ type: 'ended', state });
    same(of({}, waiting(4), end('expired')), { key: 'expired', again: true });
    same(of({}, waiting(4), turn, end('expired')), { key: 'turn', again: true });
    same(of({}, waiting(4), turn, end('expired'), end('expired')), { key: 'turn', again: true });
    same(of({}, waiting(4), end('left')), { key: 'left', again: true });
    same(of({}, waiting(4), end('blocked')), { key: 'blocked', again: false });
    same(of({}, waiting(4), turn, end('completed')), { key: 'completed', again: true });
    same(of({ state: 'draining' }, waiting(4), end('left')), { key: 'left', again: false });
    same(of({ state: 'draining' }), { key: 'drained', again: false });
    same(of({ state: 'closed' }, waiting(4)), { key: 'closed', again: false });
    same(of({ state: 'closed', seats_left: 0 }, waiting(4)), { key: 'soldout', again: false });
  },
  'the last payment is told to whoever waits, and a return too': () => {
    const paid = play({ type: 'Event', event: { ...open, seats_left: 3 } }, waiting(4), { type: 'event', state: 'open', reason: 'sold_out' });
    same([paid.phase, paid.position, paid.event.seats_left, paid.event.reason], ['waiting', 4, 0, 'sold_out']);
    same(ending(reduce(paid, { type: 'event', state: 'closed', reason: 'sold_out' })), { key: 'soldout', again: false });
    const back = reduce(reduce(paid, { type: 'event', state: 'open' }), { type: 'position', position: 4, seats_left: 1 });
    same([back.event.seats_left, back.event.reason], [1, undefined]);
  },
  'a store that is away is no pause': () => {
    const s = play(event, waiting(5), { type: 'event', state: 'open', reason: 'store_unavailable' });
    same([s.away, s.event.state, s.event.reason], [true, 'open', undefined]);
    yes(reduce(s, event).away, 'the event’s memory says nothing of the store');
    yes(!reduce(s, { type: 'Connecting' }).away && !reduce(s, waiting(5)).away, 'another connection, or the store’s own answer, begins anew');
    const back = reduce(s, { type: 'event', state: 'paused', reason: 'database_busy', message: 'soon' });
    same([back.away, back.event.state, back.event.reason, back.event.message], [false, 'paused', 'database_busy', 'soon']);
  },
  'people wait for the lobby first, then for the doors': () => {
    const e = { state: 'scheduled', lobby_opens_at: '2026-05-01T11:00:00Z', opens_at: '2026-05-01T12:00:00Z' };
    const time = (s) => Date.parse(`2026-05-01T${s}Z`);
    same(opening(e, time('10:00:00')), { at: time('11:00:00'), what: 'lobby' });
    same(opening(e, time('11:30:00')), { at: time('12:00:00'), what: 'open' });
    same(opening(e, time('12:00:00')), null);
    same([mayJoin(e, time('10:59:59')), mayJoin(e, time('11:00:00'))], [false, true]);
  },
};
