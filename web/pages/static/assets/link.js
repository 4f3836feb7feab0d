// The pill that says how the connection is.

import { attr, text } from './dom.js';
import { t } from './strings.js';

export class Pill {
  constructor(el) {
    this.el = el;
    this.kind = 'idle';
    this.until = 0;
    this.away = false;
  }

  // set takes the kind from the connection; until is of performance.now().
  set(kind, until = 0) {
    this.kind = kind;
    this.until = until;
    this.draw();
  }

  draw() {
    const left = Math.ceil((this.until - performance.now()) / 1000);
    const kind = this.away && this.kind === 'live' ? 'away' : this.kind;
    attr(this.el, 'data-link', kind);
    if (kind !== 'retry') text(this.el, t(`link.${kind}`));
    else text(this.el, left > 0 ? t('link.retry', { n: left }) : t('link.retrying'));
  }
}

// comeback calls back whenever somebody returns to the page or the network to them.
export function comeback({ back, gone }) {
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') back();
  });
  addEventListener('pageshow', (e) => {
    if (e.persisted) back();
  });
  addEventListener('online', back);
  addEventListener('offline', gone);
}
