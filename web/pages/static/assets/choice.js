// What somebody may say of themselves when they join: which line, and by which code;
// and whose window it is. A refusal about one of these is said where it was given.

import { $, attr, make, show, text } from './dom.js';
import { countdown, near, spoken } from './format.js';
import { t } from './strings.js';

// lanes are the lines that everybody may choose from: where an event has groups, those
// say who stands where.
const lanes = (event) => (event.groups?.length > 0 ? [] : event.lanes ?? []);

const takesCodes = (event) => event.groups?.some((g) => g.codes) ?? false;

// chooses tells whether an event leaves anything to whoever joins.
export const chooses = (event) => Boolean(event) && (lanes(event).length > 1 || takesCodes(event));

// faults are the refusals that a code may mend.
const faults = ['no_group', 'code_unknown', 'code_used'];

export class Choice {
  // wanted is the name of the line that is chosen to begin with, if there is such a one.
  constructor(speaker, wanted) {
    this.speaker = speaker;
    this.wanted = wanted;
    this.fault = null; // {field, key}
    this.opens = 0; // when the window of whoever asked opens
    for (const field of ['lanes', 'code']) {
      $(field).addEventListener('input', () => {
        if (this.fault?.field === field) this.fault = null;
        this.draw();
      });
    }
  }

  get lane() {
    return $('lanes').querySelector(':checked')?.value;
  }

  // settled tells whether everything is said that must be; if not, it says so there.
  settled(event) {
    this.fault = lanes(event).length > 1 && !this.lane ? { field: 'lanes', key: 'lane.fault' } : null;
    this.draw();
    if (this.fault) $('lanes').querySelector('input').focus();
    return this.fault === null;
  }

  // said is the part of a join's body that this is.
  said(event) {
    const code = takesCodes(event) ? $('code').value.trim() : '';
    const lane = lanes(event).length > 1 ? this.lane : undefined;
    return { ...(code && { code }), ...(lane && { lane }) };
  }

  // refused takes a refusal that is about this, and tells whether it is.
  refused(err, event, now) {
    if (err.code !== 'not_eligible') return false;
    this.opens = err.opens;
    if (err.opens > 0) {
      this.speaker.say(t('window.say', { left: spoken(err.opens - now) }));
      return true;
    }
    if (!takesCodes(event) || !faults.includes(err.reason)) return false;
    this.fault = { field: 'code', key: `code.${err.reason}` };
    this.draw();
    $('code').focus();
    return true;
  }

  // tick follows the countdown.
  tick(now) {
    if (this.opens === 0 || this.opens > now) return;
    this.opens = 0;
    this.speaker.say(t('window.begun'));
  }

  // draw writes the faults, and with an event everything.
  draw(event, now) {
    for (const [field, box] of Object.entries({ lanes: 'lane', code: 'code' })) {
      const fault = this.fault?.field === field ? t(this.fault.key) : '';
      show($(`${box}-fault`), fault !== '');
      text($(`${box}-fault`), fault);
      if (field === 'code') attr($('code'), 'aria-invalid', fault !== '' ? 'true' : null);
    }
    if (!event) return;
    show($('code-box'), takesCodes(event));
    this.drawLanes(lanes(event));
    drawWindows(event.groups ?? [], now);
    show($('window'), this.opens > 0);
    if (this.opens === 0) return;
    text($('window-text'), t('window.early', { time: near(this.opens, now) }));
    text($('window-clock'), countdown(this.opens - now));
  }

  drawLanes(all) {
    show($('lane-box'), all.length > 1);
    const names = all.map((l) => l.name).join(' ');
    if ($('lanes').dataset.names !== names) {
      $('lanes').dataset.names = names;
      $('lanes').replaceChildren(...all.map((l) => make(
        'label', {},
        make('input', { type: 'radio', name: 'lane', value: l.name, checked: l.name === this.wanted ? '' : null }),
        make('b', { class: 'what' }, l.name), make('span', { class: 'cost' }),
      )));
    }
    all.forEach((l, i) => {
      const told = l.paused ? t('lane.paused') : t('lane.waiting', { n: l.waiting });
      text($('lanes').children[i].querySelector('.cost'), told);
    });
  }
}

// drawWindows lists the groups, where any of them has a window.
function drawWindows(groups, now) {
  show($('windows-box'), groups.some((g) => g.opens_at || g.closes_at));
  const rows = groups.map((g) => {
    const opens = Date.parse(g.opens_at ?? '') || 0;
    const closes = Date.parse(g.closes_at ?? '') || Infinity;
    const open = opens <= now && now < closes;
    const key = open ? (closes < Infinity ? 'window.until' : 'window.open') : now < opens ? 'window.from' : 'window.over';
    return { name: g.name, open, when: t(key, { time: near(open ? Math.min(closes, 8e15) : opens, now) }) };
  });
  const key = JSON.stringify(rows);
  if ($('windows').dataset.key === key) return;
  $('windows').dataset.key = key;
  $('windows').replaceChildren(...rows.map((r) => make(
    'li', { 'data-open': r.open ? '' : null }, make('b', {}, r.name), make('span', {}, r.when),
  )));
}
