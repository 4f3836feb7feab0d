// The seat map: a grid for each section, one stop for the tab key, arrows inside.

import { $, attr, make, show, text } from './dom.js';
import { money } from './format.js';
import { t } from './strings.js';

export class SeatMap {
  // toggle(id) is called for a seat that may be chosen or given back.
  constructor(root, nav, toggle) {
    this.root = root;
    this.nav = nav;
    this.toggle = toggle;
    this.cells = new Map(); // id → {el, seat, label}
    this.sections = new Map();
    this.shape = '';
    root.addEventListener('click', (e) => {
      const el = e.target.closest('.seat');
      if (el) this.press(el);
    });
    root.addEventListener('keydown', (e) => this.key(e));
  }

  press(el) {
    this.rove(el);
    const { status } = this.cells.get(el.dataset.id).seat;
    if (status === 'free' || el.dataset.s === 'chosen') this.toggle(el.dataset.id);
  }

  // draw brings the page to a map and a choice; what has not changed is not touched.
  draw(map, chosen) {
    const shape = map.sections.map((s) => `${s.id}:${s.seats.length}`).join(' ');
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(map);
    }
    for (const section of map.sections) {
      let free = 0;
      for (const seat of section.seats) {
        if (seat.status === 'free') free++;
        this.mark(seat, chosen.has(seat.id));
      }
      const parts = this.sections.get(section.id);
      text(parts.free, free > 0 ? t('shop.free', { n: free }) : t('shop.full'));
      parts.bar.value = free;
    }
  }

  mark(seat, chosen) {
    const cell = this.cells.get(seat.id);
    cell.seat = seat;
    const s = chosen ? 'chosen' : seat.status;
    if (cell.el.dataset.s === s) return;
    cell.el.dataset.s = s;
    attr(cell.el, 'aria-selected', chosen ? 'true' : seat.status === 'free' ? 'false' : null);
    attr(cell.el, 'aria-disabled', s === 'free' || s === 'chosen' ? null : 'true');
    attr(cell.el, 'aria-label', t(`shop.seat.${chosen ? 'mine' : seat.status}`, { seat: cell.label }));
  }

  build(map) {
    this.cells.clear();
    this.sections.clear();
    const blocks = document.createDocumentFragment();
    const cards = document.createDocumentFragment();
    for (const section of map.sections) {
      const cost = money(section.price_cents, section.currency);
      const free = make('span', { class: 'free' });
      const bar = make('meter', { min: 0, max: section.seats.length, 'aria-hidden': 'true' });
      this.sections.set(section.id, { free, bar });
      cards.append(make('li', {}, make('a', { href: `#section-${section.id}` }, make('b', {}, section.name || section.id), make('span', {}, cost), free, bar)));
      const grid = this.grid(section, cost);
      blocks.append(make(
        'section', { class: 'block', id: `section-${section.id}`, tabindex: -1 },
        make('h3', {}, t('shop.section', { name: section.name || section.id, price: cost })),
        make('div', { class: 'scroll' }, grid),
      ));
    }
    this.root.replaceChildren(blocks);
    this.nav.replaceChildren(cards);
  }

  grid(section, cost) {
    const grid = make('div', {
      role: 'grid', class: 'grid', 'aria-label': t('shop.grid', { name: section.name || section.id, price: cost }), 'aria-describedby': 'grid-hint',
    });
    let row;
    let name;
    let stops = 0;
    for (const seat of section.seats) {
      if (!row || seat.row !== name) {
        name = seat.row;
        row = make('div', { role: 'row', class: 'seats' }, make('span', { role: 'rowheader', class: 'rowname', 'aria-label': t('shop.row', { row: name }) }, name));
        grid.append(row);
      }
      const el = document.createElement('button');
      el.type = 'button';
      el.className = 'seat';
      el.setAttribute('role', 'gridcell');
      el.dataset.id = seat.id;
      el.textContent = seat.number;
      el.tabIndex = stops++ === 0 ? 0 : -1;
      row.append(el);
      const label = t('shop.seat', { section: section.name || section.id, row: name, number: String(seat.number), price: cost });
      this.cells.set(seat.id, { el, seat, label });
    }
    return grid;
  }

  // rove makes el its grid's one stop for the tab key.
  rove(el) {
    const grid = el.closest('.grid');
    const old = grid.querySelector('.seat[tabindex="0"]');
    if (old && old !== el) old.tabIndex = -1;
    el.tabIndex = 0;
  }

  key(e) {
    const el = e.target.closest?.('.seat');
    if (!el || e.altKey || e.metaKey) return;
    const next = neighbour(el, e.key, e.ctrlKey);
    if (!next) return;
    e.preventDefault();
    this.rove(next);
    next.focus();
    next.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }
}

// neighbour is the seat that a key leads to. Rows may be of different length and are
// centred, so up and down go to whichever is nearest on the screen's line.
function neighbour(el, key, all) {
  const row = el.parentElement;
  const seats = (r) => [...r.querySelectorAll('.seat')];
  const inRow = seats(row);
  const at = inRow.indexOf(el);
  const grid = row.parentElement;
  switch (key) {
    case 'ArrowLeft': return inRow[at - 1];
    case 'ArrowRight': return inRow[at + 1];
    case 'Home': return all ? seats(grid.firstElementChild)[0] : inRow[0];
    case 'End': return all ? seats(grid.lastElementChild).at(-1) : inRow.at(-1);
    case 'ArrowUp':
    case 'ArrowDown': {
      const other = key === 'ArrowUp' ? row.previousElementSibling : row.nextElementSibling;
      if (!other) return undefined;
      const there = seats(other);
      const shift = (there.length - inRow.length) / 2;
      return there[Math.max(0, Math.min(there.length - 1, Math.round(at + shift)))];
    }
    default: return undefined;
  }
}

// legend shows what the marks mean.
export function legend(root) {
  root.replaceChildren(...['free', 'chosen', 'held', 'sold'].map((s) =>
    make('li', {}, make('span', { class: 'seat', 'data-s': s, 'aria-hidden': 'true' }), t(`shop.legend.${s}`))));
}

// stock shows what is sold by number only.
export function stock(item) {
  show($('stock'), Boolean(item));
  if (!item) return;
  text($('stock-left'), t('shop.stock.left', { n: item.free }));
  text($('stock-price'), t('shop.stock.price', { price: money(item.price_cents, item.currency) }));
}
