// How the shop looks in each state. It only writes; shop.js decides.

import { loss, panel, price } from './basket.js';
import { $, attr, make, show, text } from './dom.js';
import { countdown, money } from './format.js';
import { isList, most, named } from './items.js';
import { stock } from './seats.js';
import { t } from './strings.js';

// slow is the time in payment after which the page says that it takes long.
const slow = 12000;

// draw writes everything and returns the name of the panel to show.
export function draw(s, now, chooser) {
  const name = panel(s);
  if (s.event) text($('name'), s.event.name);
  document.title = `${t(titles[name] ?? 'shop.title')} · ${s.event?.name ?? t('brand')}`;
  attr(document.body, 'data-mood', name === 'paid' ? 'turn' : null);
  const inside = s.turn !== null && s.gate === 'in' && (name === 'choose' || name === 'hold');
  show($('time'), inside);
  if (inside) {
    const left = s.turn.expires - now;
    text($('time-left'), left > 0 ? countdown(left) : t('shop.time.over'));
    attr($('time'), 'data-low', left < 60000 ? 'yes' : null);
  }
  const busy = s.busy !== '' && s.retryAt > performance.now();
  const note = busy ? t('shop.retry') : s.note;
  show($('note'), note !== '');
  text($('note'), note);
  attr($('note'), 'class', busy || s.good ? 'notice' : 'notice warn');
  parts[name]?.(s, now, chooser);
  show($('basket'), name === 'choose' && (isList(s.map) || Boolean(s.map.sections?.length)));
  return name;
}

const titles = {
  wait: 'shop.wait.title', over: 'shop.over.title', hold: 'hold.title', pay: 'pay.title', paid: 'paid.title',
};

const parts = { choose, hold, pay, paid, lost };

function choose(s, now, chooser) {
  const list = isList(s.map);
  const item = list ? undefined : s.map.items?.[0];
  const seats = (s.map.sections ?? []).length > 0;
  text($('choose-title'), t(seats ? 'shop.title' : `shop.title.${list ? s.map.kind : 'stock'}`));
  show($('items'), list);
  if (list) {
    text($('items-title'), t(`shop.list.${s.map.kind}`));
    text($('items-hint'), t('shop.list.most', { n: s.most }));
  }
  show($('hall'), seats);
  stock(item);
  show($('best-box'), seats || Boolean(item));
  show($('best-text'), seats);
  most(s.most);
  const n = Number($('quantity').value);
  text($('best'), s.busy === 'reserve' ? t('shop.reserving') : t(seats ? 'shop.best.button' : 'shop.stock.button', { n }));
  attr($('best'), 'aria-disabled', s.busy ? 'true' : null);
  if (!seats && !list) return;
  chooser.draw(s.map, s.chosen);
  const some = s.chosen.size > 0;
  const sum = price(s.seats, s.chosen);
  text($('chosen'), some ? t(list ? 'shop.chosen.items' : 'shop.chosen', { n: s.chosen.size }) : t(list ? 'shop.none.items' : 'shop.none'));
  text($('sum'), some ? cost(sum.cents, sum.currency) : '');
  show($('clear'), some);
  chips($('chips'), [...s.chosen].map((id) => short(s.seats.get(id), id)));
  text($('reserve'), t(s.busy === 'reserve' ? 'shop.reserving' : 'shop.reserve'));
  $('reserve').disabled = !some;
  attr($('reserve'), 'aria-disabled', s.busy ? 'true' : null);
}

// cost is a sum, in words where it is nothing.
const cost = (cents, currency) => (cents === 0 ? t('shop.free.of.charge') : money(cents, currency));

// short is a seat as a ticket names it.
function short(seat, id) {
  if (seat?.item) return named(seat.item);
  return seat ? t('shop.short', { section: seat.section.name || seat.section.id, row: seat.row, number: seat.number }) : id;
}

function chips(root, names) {
  const key = names.join('|');
  if (root.dataset.key === key) return;
  root.dataset.key = key;
  root.replaceChildren(...names.map((n) => make('li', {}, n)));
}

// bought names what a reservation holds: seats by name, a stock by its number.
function bought(s) {
  const r = s.reservation;
  if (new Set(r.seats).size < r.seats.length || (s.map?.items?.length && !isList(s.map))) {
    return [t('paid.tickets', { n: r.seats.length })];
  }
  return r.seats.map((id) => short(s.seats.get(id), id));
}

function hold(s, now) {
  const r = s.reservation;
  const total = cost(r.amount_cents, r.currency);
  show($('method').parentElement, r.amount_cents > 0);
  chips($('hold-seats'), bought(s));
  text($('hold-sum'), total);
  const left = Date.parse(r.expires_at) - now;
  text($('hold-left'), countdown(left));
  attr($('hold-time'), 'data-low', left < 30000 ? 'yes' : null);
  text($('pay'), s.busy === 'pay' ? t('hold.paying') : t(r.amount_cents > 0 ? 'hold.pay' : 'hold.confirm', { price: total }));
  attr($('pay'), 'aria-disabled', s.busy ? 'true' : null);
  attr($('cancel'), 'aria-disabled', s.busy ? 'true' : null);
}

function pay(s, now) {
  chips($('pay-seats'), bought(s));
  show($('pay-long'), Boolean(s.reservation.reason) || now - s.since > slow); // a reason: the provider is away
}

function paid(s) {
  const r = s.reservation;
  text($('paid-seats-title'), t(isList(s.map) ? 'paid.items' : 'paid.seats', { n: r.seats.length }));
  text($('paid-title'), t(isList(s.map) ? 'paid.title.items' : 'paid.title'));
  chips($('paid-seats'), bought(s));
  text($('paid-sum'), cost(r.amount_cents, r.currency));
  text($('paid-order'), r.reservation_id);
}

function lost(s) {
  const key = loss(s.reservation);
  text($('lost-title'), t(`lost.${key}.title`));
  text($('lost-text'), t(`lost.${key}.text`));
  show($('lost-again'), s.gate === 'in');
}
