// What somebody has chosen and what becomes of it. Plain values only.

// seatsOf is every seat of a map by its id, with its section, and every item.
export function seatsOf(map) {
  const seats = new Map();
  for (const section of map?.sections ?? []) {
    for (const seat of section.seats) seats.set(seat.id, { ...seat, section });
  }
  // A slot or a course with a place left is as good as a free seat.
  for (const item of map?.items ?? []) seats.set(item.id, { ...item, status: item.free > 0 ? 'free' : 'full', section: item, item });
  return seats;
}

// Changes are what the service says of a map since it was read. A map of another of its
// instances may be behind, so each counts only where its version is higher, and what
// was said is said again of a map that is read later.
export class Changes {
  constructor() {
    this.latest = new Map();
  }

  // take brings a map up to a message.
  take(map, m) {
    for (const c of [...(m.seats ?? []), ...(m.items ?? [])]) {
      if (!(this.latest.get(c.id)?.version > c.version)) this.latest.set(c.id, c);
    }
    this.apply(map);
    map.seats_left = m.seats_left;
  }

  // apply brings a map up to all that was said.
  apply(map) {
    for (const thing of [...(map.sections ?? []).flatMap((s) => s.seats), ...(map.items ?? [])]) {
      const c = this.latest.get(thing.id);
      if (c && c.version > (thing.version ?? 0)) Object.assign(thing, c);
    }
  }
}

// price is the sum of the chosen seats, in cents, and its currency.
export function price(seats, chosen) {
  let cents = 0;
  let currency = '';
  for (const id of chosen) {
    const seat = seats.get(id);
    if (!seat) continue;
    cents += seat.section.price_cents;
    currency = seat.section.currency;
  }
  return { cents, currency };
}

// prune parts the chosen seats into those that are still free and those that went.
export function prune(seats, chosen) {
  const kept = [];
  const gone = [];
  for (const id of chosen) (seats.get(id)?.status === 'free' ? kept : gone).push(id);
  return { kept, gone };
}

// attempt is the idempotency key for one wish: the same wish keeps its key however
// often it is sent, another wish has another one.
export function attempt(kept, wish, random) {
  const signature = JSON.stringify(wish);
  return kept?.signature === signature ? kept : { signature, key: random() };
}

const running = new Set(['held', 'payment_pending']);

// isRunning tells whether a reservation may still change by itself.
export const isRunning = (r) => r !== null && running.has(r.status);

// panel is which part of the shop is shown. gate is load, wait, in or over.
export function panel({ gate, map, reservation }) {
  switch (reservation?.status) {
    case 'held': return 'hold';
    case 'payment_pending': return 'pay';
    case 'paid': return 'paid';
    case undefined: break;
    default: return 'lost';
  }
  return gate === 'in' ? (map ? 'choose' : 'load') : gate;
}

// loss names the sentences for a reservation that came to nothing.
export function loss({ status, reason }) {
  switch (status) {
    case 'payment_failed': return 'declined';
    case 'refunded': return 'refunded';
    case 'expired': return 'expired';
    default: return reason === 'payment_unavailable' ? 'unavailable' : reason === 'hold_ended' ? 'expired' : 'cancelled';
  }
}

// takes is how a message about a reservation changes the one on the page: a message
// of another reservation, or one that is late, changes nothing.
export function takes(reservation, m) {
  if (!reservation || reservation.reservation_id !== m.reservation_id) return reservation;
  if (!isRunning(reservation) && running.has(m.status)) return reservation;
  if (reservation.status === 'payment_pending' && m.status === 'held') return reservation;
  return { ...reservation, ...m, reason: m.reason };
}

// follow is the wait before the next look at a reservation in payment: the socket
// usually is faster.
export function follow(looks) {
  return Math.min(1000 + looks * 500, 5000);
}
