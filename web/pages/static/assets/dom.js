// Small things for the page. Nothing is written that stands there already, so that
// nothing is read aloud, selected or laid out twice.

import { t } from './strings.js';

export const $ = (id) => document.getElementById(id);

// text sets what an element says.
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

// show decides whether an element is there.
export function show(el, on) {
  if (el.hidden === on) el.hidden = !on;
}

// attr sets or, with null, removes an attribute.
export function attr(el, name, value) {
  if (value === null || value === undefined || value === false) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, String(value));
}

// make builds an element with attributes and children.
export function make(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) attr(el, name, value);
  el.append(...children);
  return el;
}

// translate fills in every sentence that stands in the page by its name.
export function translate(root = document) {
  for (const el of root.querySelectorAll('[data-t]')) text(el, t(el.dataset.t));
  for (const el of root.querySelectorAll('[data-t-label]')) attr(el, 'aria-label', t(el.dataset.tLabel));
}

// panels shows one of the page's panels, by name, and reports whether that is new.
export function panels(root, name) {
  const changed = root.dataset.panel !== name;
  if (changed) {
    root.dataset.panel = name;
    for (const el of root.querySelectorAll(':scope > [data-panel]')) show(el, el.dataset.panel === name);
  }
  return changed;
}

// focusHeading moves the focus to a panel's heading, so that who uses keyboard or
// screen reader is where the news is.
export function focusHeading(root) {
  const heading = root.querySelector(':scope > [data-panel]:not([hidden]) h2');
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}

// Speaker says things to screen readers: news at once, the position not too often.
export class Speaker {
  constructor(el, every = 30000) {
    this.el = el;
    this.every = every;
    this.last = -Infinity;
  }

  say(sentence) {
    this.last = performance.now();
    text(this.el, sentence);
  }

  sometimes(sentence) {
    if (performance.now() - this.last >= this.every) this.say(sentence);
  }
}

// eachSecond calls act now and then once a second, at the turn of clock's seconds.
export function eachSecond(clock, act) {
  const next = () => {
    act();
    setTimeout(next, 1000 - (clock.now() % 1000) + 5);
  };
  next();
}

// eventOf reads the event's id from the address; the front page is the default's.
export function eventOf(path = location.pathname) {
  const found = /^\/e\/([a-z0-9-]{1,64})(?:\/|$)/.exec(path);
  return found?.[1] ?? document.querySelector('meta[name="waitroom-event"]')?.content ?? 'demo';
}
