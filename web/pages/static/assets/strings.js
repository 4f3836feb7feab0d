// Every sentence that a person reads on our pages stands here, so that another
// language is one more table. A value is a text with {names} in it, or, where a
// number decides the form, an object with the forms of Intl.PluralRules for {n}.

const en = {
  // The frame.
  'brand': 'Waitroom',
  'skip': 'Skip to the content',
  'noscript': 'This page shows your live place in line, and needs JavaScript for it. Please switch it on and reload.',
  'title.place': '{position} in line · {name}',
  'title.turn': 'It’s your turn · {name}',
  'title.paused': 'Paused · {name}',
  'title.plain': '{name}',

  // The connection, as it is.
  'link.connecting': 'Connecting…',
  'link.live': 'Live',
  'link.checking': 'Live, checked every few seconds',
  'link.retry': 'Reconnecting in {n} s',
  'link.retrying': 'Reconnecting…',
  'link.offline': 'You are offline',
  'link.away': 'Service interrupted',
  'link.idle': 'Not connected',

  // Loading and what can go wrong before anything is known.
  'load.title': 'One moment…',
  'load.text': 'We are asking how the event is doing.',
  'load.failed': 'The service does not answer yet. We keep trying by ourselves.',
  'missing.title': 'There is no such event',
  'missing.text': 'Check the address, or follow the link on the site that sent you here once more.',

  // Before the opening.
  'before.title': 'Not open yet',
  'before.lobby': 'You can take your place in line in',
  'before.open': 'The doors open in',
  'before.when': 'That is on {when}, your time.',
  'before.unknown': 'The opening time has not been announced. This page opens by itself.',
  'before.hint': 'Leave this page open. It counts by our clock, not by yours, and changes by itself.',
  'before.days': { one: 'day', other: 'days' },
  'before.hours': { one: 'hour', other: 'hours' },
  'before.minutes': { one: 'minute', other: 'minutes' },
  'before.seconds': { one: 'second', other: 'seconds' },

  // Joining.
  'join.title': 'Take your place in line',
  'join.lobby': 'The doors open in {left}. Join now: your place is kept until then.',
  'join.open': 'You get a number, keep it, and come in when it is your turn.',
  'join.waiting': { one: '{n} person is waiting', other: '{n} people are waiting' },
  'join.nobody': 'Nobody is waiting right now',
  'join.button': 'Join the line',
  'join.busy': 'Taking your place…',
  'join.hint': 'Your place survives a refresh, a second tab and a closed browser on this device.',
  'join.retry': 'So many are joining that it takes a moment. Trying again in {n} s; you need not press anything.',

  // Waiting.
  'wait.title': 'Your place in line',
  'wait.finding': 'Finding your place…',
  'wait.ahead': { one: '{n} person is ahead of you', other: '{n} people are ahead of you' },
  'wait.next': 'You are next',
  'wait.behind': 'of {n} waiting',
  'wait.progress': 'Your way to the front',
  'wait.estimate': 'Estimated wait',
  'wait.rate': 'Coming in',
  'wait.rate.value': '{n} a second',
  'wait.rate.minute': '{n} a minute',
  'wait.seats': 'Tickets left',
  'wait.unknown': 'Being worked out',
  'wait.held': 'Paused',
  'wait.lobby': 'The doors open in {left}. Your place is safe.',
  'wait.lobby.soon': 'The doors are about to open. Your place is safe.',
  'wait.soldout': 'Everything is taken at the moment. Held tickets may still come back, so your place stays yours; nobody can promise it, though.',
  'wait.hint': 'Keep this page open. If you lose it, come back here: your place is kept for a while.',
  'wait.leave': 'Leave the line',

  'say.position': 'You are number {position} in line. {estimate}',
  'say.estimate': 'Estimated wait: {estimate}.',
  'say.turn': 'It is your turn. You have {left} to come in.',

  // Pauses and other states of the event.
  'pause.title': 'The line is paused',
  'pause.operator': 'The organiser has stopped the line for a moment. Nobody overtakes you; it goes on by itself.',
  'pause.database_busy': 'The shop is very busy, so nobody is let in for a moment. Nobody overtakes you; it goes on by itself.',
  'pause.load_unknown': 'We cannot see how busy the shop is, so we let people in slowly until we can.',
  'pause.schedule': 'The line is paused as planned and goes on by itself.',
  'pause.other': 'Nobody is let in for a moment. Nobody overtakes you; it goes on by itself.',
  'away.title': 'A short interruption',
  'away.text': 'Part of the service does not answer at the moment. Your place is safe, and this page goes on by itself.',
  'drain.title': 'The line is closing',
  'drain.text': 'Nobody new may join. Everyone who is in line still gets their turn.',
  'message.title': 'From the organiser',

  // Leaving.
  'leave.title': 'Give up your place?',
  'leave.text': 'Your place goes to the next person. If you join again, you start at the end.',
  'leave.yes': 'Yes, leave',
  'leave.no': 'Stay in line',
  'leave.failed': 'That did not reach us. Your place is still yours; please try again.',

  // The turn.
  'turn.title': 'It’s your turn',
  'turn.text': 'Your place inside is reserved for you alone.',
  'turn.left': 'to come in',
  'turn.inside': 'left inside',
  'turn.button': 'Go in now',
  'turn.back': 'Back to the shop',
  'turn.auto': { one: 'We take you there in {n} second.', other: 'We take you there in {n} seconds.' },
  'turn.stay': 'Wait, not yet',
  'turn.stayed': 'Take your time, but come in before the clock runs out.',
  'turn.going': 'Taking you there…',
  'turn.barred': 'Your browser was not allowed to carry your turn to {host}. The organiser has to name that site as an allowed one; your turn stays yours until the clock runs out.',

  // The end of a way.
  'end.left.title': 'You left the line',
  'end.left.text': 'Your place went to the next person. You can join again at the end of the line.',
  'end.expired.title': 'Your place has ended',
  'end.expired.text': 'You were away from this page for longer than a place is kept. You can join again at the end of the line.',
  'end.turn.title': 'Your turn has ended',
  'end.turn.text': 'The time to come in ran out, and your turn went to the next person. You can join again at the end of the line.',
  'end.completed.title': 'Your visit is over',
  'end.completed.text': 'Your time inside has ended. What you bought stays yours. To come in again, join the line once more.',
  'end.blocked.title': 'This place has been closed',
  'end.blocked.text': 'The organiser has put this place out of the line. If you think that is a mistake, write to the organiser.',
  'end.closed.title': 'The event is closed',
  'end.closed.text': 'Nobody is let in any more. There is nothing left to wait for, so you may close this page.',
  'end.drained.title': 'The line is closed',
  'end.drained.text': 'Nobody may join any more; those who are in line still get their turn.',
  'end.soldout.title': 'Sold out',
  'end.soldout.text': 'Everything is sold, and the event is closed. You may close this page; thank you for waiting.',
  'end.identity.title': 'Please sign in first',
  'end.identity.text': 'This event knows its guests by name. Sign in on the organiser’s own site and come here from there.',
  'end.again': 'Join again',
  'end.proof': 'Your proof of place is of another event or damaged, so it does not count here. You can join anew.',

  // The shop.
  'shop.title': 'Choose your seats',
  'shop.title.stock': 'Choose your tickets',
  'shop.time': 'Your time inside',
  'shop.time.over': 'Your time inside is over',
  'shop.stage': 'Stage',
  'shop.sections': 'Sections',
  'shop.section': '{name}, {price}',
  'shop.free': { one: '{n} free', other: '{n} free' },
  'shop.full': 'full',
  'shop.grid': '{name}: seats, {price} each',
  'shop.grid.hint': 'Arrow keys move, Space chooses.',
  'shop.row': 'Row {row}',
  'shop.seat': '{section}, row {row}, seat {number}, {price}',
  'shop.short': '{section} · row {row} · {number}',
  'shop.seat.free': '{seat}, free',
  'shop.seat.held': '{seat}, somebody is deciding on it',
  'shop.seat.sold': '{seat}, sold',
  'shop.seat.blocked': '{seat}, not for sale',
  'shop.seat.mine': '{seat}, yours',
  'shop.legend.free': 'Free',
  'shop.legend.chosen': 'Chosen',
  'shop.legend.held': 'On hold',
  'shop.legend.sold': 'Sold',
  'shop.best': 'Best available',
  'shop.best.text': 'Let us pick seats for you, next to each other where we can.',
  'shop.best.many': 'How many',
  'shop.best.button': { one: 'Reserve {n} seat for me', other: 'Reserve {n} seats for me' },
  'shop.stock.left': { one: '{n} ticket left', other: '{n} tickets left' },
  'shop.stock.price': '{price} each',
  'shop.stock.button': { one: 'Reserve {n} ticket', other: 'Reserve {n} tickets' },
  'shop.none': 'No seat chosen yet',
  'shop.chosen': { one: '{n} seat', other: '{n} seats' },
  'shop.clear': 'Clear',
  'shop.reserve': 'Reserve',
  'shop.reserving': 'Reserving…',
  'shop.retry': 'Very busy. We try again by ourselves; nothing is done twice.',
  'shop.most': { one: 'One seat is the most you can choose here.', other: '{n} seats are the most you can choose at once.' },
  'shop.nothing': 'This event sells nothing here.',

  'shop.wait.title': 'It is not your turn yet',
  'shop.wait.text': 'The shop opens for you when you reach the front of the line.',
  'shop.wait.button': 'To the waiting page',
  'shop.over.title': 'Your time inside is over',
  'shop.over.text': 'What you bought stays yours. To come in again, join the line once more.',

  // The hold, the payment, the ticket.
  'hold.title': 'Held for you',
  'hold.text': 'Nobody else can take these while the clock runs.',
  'hold.left': 'left to pay',
  'hold.total': 'Total',
  'hold.method': 'Test payment',
  'hold.method.approve': 'goes through',
  'hold.method.decline': 'is declined',
  'hold.method.hint': 'This is a sandbox. No money moves.',
  'hold.pay': 'Pay {price}',
  'hold.paying': 'Sending…',
  'hold.cancel': 'Give them back',
  'pay.title': 'Payment under way',
  'pay.text': 'We are waiting for the payment provider. The answer appears here by itself; you may also close the page and come back.',
  'pay.long': 'This takes longer than usual. Your seats stay yours, and nothing is charged twice.',
  'paid.title': 'Paid. Enjoy the show!',
  'paid.text': 'These are yours now.',
  'paid.order': 'Order',
  'paid.seats': { one: 'Your seat', other: 'Your seats' },
  'paid.tickets': { one: '{n} ticket', other: '{n} tickets' },
  'paid.done': 'You may close this page. The order number above proves your purchase.',

  'lost.declined.title': 'The payment was declined',
  'lost.declined.text': 'Nothing was charged, and the seats went back on sale. Your turn is still yours: choose again, or pay another way.',
  'lost.unavailable.title': 'Payment is not possible right now',
  'lost.unavailable.text': 'The payment provider does not answer, so the reservation was given up and nothing was charged. Please choose again in a few minutes.',
  'lost.expired.title': 'The hold has run out',
  'lost.expired.text': 'The time to pay is over and the seats went back on sale. Nothing was charged. While your turn lasts you can choose again.',
  'lost.cancelled.title': 'Given back',
  'lost.cancelled.text': 'The seats are on sale again and nothing was charged. While your turn lasts you can choose others.',
  'lost.refunded.title': 'Your money goes back',
  'lost.refunded.text': 'The payment arrived after your hold had ended and the seats were gone. The whole amount is refunded to you by itself.',
  'lost.again': 'Choose again',

  // Refusals: what happened, and what to do.
  'no.seat_taken': 'Somebody was a moment faster for one of these seats. The map is fresh now; please choose another.',
  'no.seats_taken': 'Just taken: {seats}. The map is fresh now; please choose another.',
  'no.sold_out': 'Nothing is left that fits. Fewer seats may still work, and held seats may come back.',
  'no.already_reserved': 'That is more than one person may have here. Choose fewer, or give back what you hold.',
  'no.token_used': 'Your turn has already been used for a purchase. For another one, join the line again.',
  'no.token_required': 'We do not see your turn here. Please go back to the waiting page.',
  'no.token_invalid': 'Your turn could not be read. Please go back to the waiting page, it hands it out again.',
  'no.token_expired': 'Your turn has ended. Please go back to the waiting page.',
  'no.token_wrong_event': 'Your turn is for another event. Please open the waiting page of this one.',
  'no.token_revoked': 'The organiser has withdrawn your turn. If you think that is a mistake, write to the organiser.',
  'no.hold_expired': 'The time to pay ran out before your payment reached us. Nothing was charged; please choose again.',
  'no.contended': 'Many people want the same seats. Nothing was taken from you; please try once more.',
  'no.not_cancellable': 'This is being paid, or paid already, so it cannot be given back here.',
  'no.timetable_clash': 'Two of these take place at the same time. Please choose only one of them.',
  'no.not_open': 'It is not open yet. Please wait a moment; the page goes on by itself.',
  'no.closed': 'The event is closed, and nothing is sold any more.',
  'no.blocked': 'The organiser has closed this place. If you think that is a mistake, write to the organiser.',
  'no.not_eligible': 'It is not your window yet. Please come back at the time you were told.',
  'no.forbidden': 'That is not allowed from here. Please open this page at its usual address.',
  'no.rate_limited': 'That were too many tries in a short time. Please wait a moment, then go on.',
  'no.challenge_required': 'We first need to know that you are a person. Please go back to the waiting page.',
  'no.challenge_failed': 'The check did not succeed. Please try it once more.',
  'no.exhausted': 'Nothing is left right now, but some may come back. Please try again in a moment.',
  'no.full': 'As many people are inside as may be. Please try again in a moment.',
  'no.exists': 'An event with this id exists already.',
  'no.wrong_mode': 'This event does not sell that way. Please reload the page.',
  'no.not_found': 'We do not find that any more. Please reload the page.',
  'no.idempotency_mismatch': 'This try was mixed up with an earlier one. Nothing was done; please press once more.',
  'no.idempotency_in_progress': 'Your first try is still running. Please wait a moment.',
  'no.method_not_allowed': 'This page is older than the service. Please reload it.',
  'no.unsupported_media_type': 'This page is older than the service. Please reload it.',
  'no.bad_json': 'This page is older than the service. Please reload it.',
  'no.body_too_large': 'That is too much at once. Please choose fewer.',
  'no.invalid': 'Something in that was not right: {detail}',
  'no.unavailable': 'The service does not answer at the moment. Nothing was lost and nothing done twice; please try again.',
  'no.internal': 'Something went wrong on our side. Nothing was done twice; please try again.',
  'no.unreachable': 'We could not reach the service. Check your connection; nothing is done twice.',
  'no.other': 'That did not work ({code}). Please try again.',
};

// The console speaks in the same table, to operators.
Object.assign(en, {
  'ops.title': 'Console',
  'ops.token': 'Operator token',
  'ops.token.hint': 'Kept in this tab only, and forgotten when you close it.',
  'ops.enter': 'Open the console',
  'ops.out': 'Sign out',
  'ops.wrong': 'The service does not accept this token.',
  'ops.event': 'Event',
  'ops.none': 'There is no event yet. Make one with “waitroom event create”.',
  'ops.page': 'Waiting page',
  'ops.waiting': 'Waiting',
  'ops.admitted': 'Admitted a second',
  'ops.inside': 'Inside',
  'ops.inside.of': 'of {n} at most',
  'ops.inside.free': 'no limit',
  'ops.total': 'Admitted in all',
  'ops.pool': 'Pool usage',
  'ops.pool.none': 'not known',
  'ops.seats': 'Tickets left',
  'ops.sockets': 'Sockets on this node',
  'ops.rate.of': 'of {n} allowed',
  'ops.state.scheduled': 'Scheduled',
  'ops.state.lobby': 'Lobby',
  'ops.state.open': 'Open',
  'ops.state.paused': 'Paused',
  'ops.state.draining': 'Draining',
  'ops.state.closed': 'Closed',
  'ops.why': 'Decision',
  'ops.why.rate': 'At the event’s own rate',
  'ops.why.database_busy': 'Held back: the database is busy',
  'ops.why.load_unknown': 'At the floor: the load is not known',
  'ops.why.recovering': 'Climbing back after a busy time',
  'ops.why.not_open': 'Nobody is let in in this state',
  'ops.held.rate_cap': 'the rate’s cap',
  'ops.held.max_active': 'the house is full',
  'ops.held.empty': 'the line is empty',
  'ops.held.not_open': 'not open',
  'ops.held': 'kept back by: {what}',
  'ops.leader': 'Leader',
  'ops.leader.self': '{name}, the node that answers',
  'ops.leader.none': 'nobody at the moment',
  'ops.fence': 'Fence',
  'ops.load': 'Load',
  'ops.rate': 'Admission rate',
  'ops.rate.unit': 'people a second',
  'ops.rate.set': 'Set rate',
  'ops.flow': 'The line',
  'ops.open': 'Open',
  'ops.pause': 'Pause',
  'ops.resume': 'Resume',
  'ops.drain': 'Drain',
  'ops.close': 'Close',
  'ops.drain.ask': 'Drain the event? Nobody new may join; everyone in line still gets in.',
  'ops.close.ask': 'Close the event? Nobody joins or is let in any more, and the people in line are told so.',
  'ops.sure': 'Yes, do it',
  'ops.cancel': 'Cancel',
  'ops.admit': 'Admit by hand',
  'ops.admit.text': 'Outside the rate, inside the limit of people inside, and written down as by hand.',
  'ops.admit.button': { one: 'Admit {n}', other: 'Admit {n}' },
  'ops.admit.done': { one: '{n} person was let in.', other: '{n} people were let in.' },
  'ops.done': 'Done.',
  'ops.audit': 'Audit trail',
  'ops.audit.none': 'Nothing has been written down yet.',
  'ops.audit.same': 'no change',
  'ops.audit.when': 'When',
  'ops.audit.who': 'Who',
  'ops.audit.what': 'What',
  'ops.audit.change': 'Change',
  'ops.live': 'Live, each second',
  'ops.stale': 'No answer for {n} s',
});

const languages = { en };
const chosen = 'en';
const plural = new Intl.PluralRules(chosen);
const numbers = new Intl.NumberFormat(chosen, { maximumFractionDigits: 1 });

// language is what Intl is to be asked for.
export const language = chosen;

// has tells whether there is a sentence of this name.
export function has(key) {
  return Object.hasOwn(languages[chosen], key);
}

// t is a sentence with its values filled in. Numbers are written as the language
// writes them. An unknown key shows itself: better than nothing, and easy to find.
export function t(key, values = {}) {
  let text = has(key) ? languages[chosen][key] : key;
  if (typeof text === 'object') {
    text = text[plural.select(Number(values.n))] ?? text.other;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    if (value === undefined || value === null) return whole;
    return typeof value === 'number' ? numbers.format(value) : String(value);
  });
}

// refusal is the sentence for a refusal's code.
export function refusal(code, values = {}) {
  const key = `no.${code}`;
  return has(key) ? t(key, values) : t('no.other', { code });
}
