// The list of slots or courses: a box to tick for each.

import { $, attr, make, show, text } from './dom.js';
import { money, span } from './format.js';
import { t } from './strings.js';

// isList tells whether a map is chosen from as a list.
export const isList = (map) => map?.kind === 'slots' || map?.kind === 'courses';

// when is the time of a slot, or of each of a course's meetings.
export function when(item) {
  if (item.starts_at) return span(Date.parse(item.starts_at), Date.parse(item.ends_at));
  return (item.meetings ?? []).map((m) => {
    const [day, hours] = m.split(' ');
    return `${day.includes('-') ? day : t(`day.${day}`)} ${hours.replace('-', '–')}`;
  }).join(', ');
}

// named is an item as a ticket names it.
export const named = (item) => [item.name || item.id, when(item)].filter(Boolean).join(' · ');

export class ItemList {
  // toggle(id) is called for an item that may be chosen or given back.
  constructor(root, toggle) {
    this.root = root;
    this.rows = new Map();
    this.shape = '';
    root.addEventListener('change', (e) => toggle(e.target.value));
  }

  // draw brings the list to a map and a choice; what has not changed is not touched.
  draw(map, chosen) {
    const shape = JSON.stringify(map.items.map(({ id, name, starts_at, meetings, price_cents }) => [id, name, starts_at, meetings, price_cents]));
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(map.items);
    }
    for (const item of map.items) {
      const { row, box, free } = this.rows.get(item.id);
      const mine = chosen.has(item.id);
      box.checked = mine;
      box.disabled = item.free <= 0 && !mine;
      attr(row, 'data-s', mine ? 'chosen' : item.free > 0 ? 'free' : 'full');
      text(free, item.free > 0 ? t('shop.places', { n: item.free }) : t('shop.full'));
    }
  }

  build(items) {
    this.rows.clear();
    this.root.replaceChildren(...items.map((item) => {
      const box = make('input', { type: 'checkbox', value: item.id });
      const free = make('span', { class: 'places' });
      const times = when(item);
      const row = make('li', {}, make(
        'label', {}, box,
        make('span', { class: 'what' }, make('b', {}, item.name || item.id), ...(times ? [make('span', { class: 'when' }, times)] : [])),
        make('span', { class: 'cost' }, make('span', {}, price(item)), free),
      ));
      this.rows.set(item.id, { row, box, free });
      return row;
    }));
  }
}

// price is what an item costs, in words where it costs nothing.
export const price = (item) => (item.price_cents === 0 ? t('shop.free.of.charge') : money(item.price_cents, item.currency));

// most offers as many at once as one person may have.
export function most(n) {
  const select = $('quantity');
  if (select.options.length === n) return;
  const now = Number(select.value);
  select.replaceChildren(...Array.from({ length: n }, (_, i) => make('option', {}, String(i + 1))));
  select.value = String(Math.min(n, now || 2));
  show(select.parentElement, true);
}
