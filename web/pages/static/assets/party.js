// Friends who share one place: the box in which a party is made, joined and left, and
// in which its members see who buys. place.js knows how the party is; this asks for
// changes, and says what was refused.

import { call, insist } from './api.js';
import { $, attr, show, text } from './dom.js';
import { countdown } from './format.js';
import { has, t } from './strings.js';

// patient ends the tries of whoever has made too many: that is better said than waited for.
function patient(_, err) {
  if (err.code === 'rate_limited') throw err;
}

export class Party {
  // api is the event's address; token() the place token; kept(answer) takes a party's
  // answer, whose place token counts from then on; left() is told of the end.
  constructor(api, { token, kept, left }) {
    this.api = `${api}/party`;
    this.token = token;
    this.kept = kept;
    this.left = left;
    this.busy = false;
    this.fault = '';
    this.code = ''; // of the party, once it is known
    this.seeking = false;
    $('party-make').addEventListener('click', () => this.ask('POST', ''));
    $('party-buy').addEventListener('click', () => this.ask('PUT', '/buyer'));
    $('friend-buy').addEventListener('click', () => this.ask('PUT', '/buyer'));
    $('party-ask').addEventListener('submit', (e) => {
      e.preventDefault();
      const code = $('party-code').value.trim();
      if (code) this.ask('POST', '/members', { code });
      else $('party-code').focus();
    });
    $('party-code').addEventListener('input', () => this.say(''));
  }

  // ask makes one call, and repeats it while the service is away: each has one effect.
  async ask(method, path, body) {
    if (this.busy) return;
    this.busy = true;
    this.say('');
    this.draw(this.state, this.now);
    const pressed = document.activeElement;
    try {
      const answer = await insist((attempt) => call(method, this.api + path, { token: this.token(), attempt, body }), { tries: 4, waiting: patient });
      if (method === 'DELETE') {
        this.code = '';
        this.left();
      } else {
        this.code = answer.body.code;
        this.kept(answer.body);
      }
    } catch (err) {
      const where = path === '/members' ? 'join' : 'other';
      this.say([`party.${where}.${err.code}`, `party.no.${err.code}`].find(has) ?? 'party.no.other');
      if (where === 'join') $('party-code').focus();
    }
    this.busy = false;
    this.draw(this.state, this.now);
    if (pressed?.closest('#party [hidden]')) $('party-title').focus({ preventScroll: true });
  }

  // leave gives up the part in the party; the others keep its place.
  leave() {
    return this.ask('DELETE', '/members/me');
  }

  // seek finds out the code of a party of an earlier visit.
  async seek() {
    if (this.seeking) return;
    this.seeking = true;
    try {
      const answer = await insist((attempt) => call('GET', this.api, { token: this.token(), attempt }), { tries: 4 });
      this.code = answer.body.code;
      this.draw(this.state, this.now);
    } catch {
      this.code = ''; // it is of use for friends who come, and no more than that
    }
  }

  say(key) {
    this.fault = key;
    text($('party-fault'), key === '' ? '' : t(key));
    show($('party-fault'), key !== '');
    attr($('party-code'), 'aria-invalid', key.startsWith('party.join.') ? 'true' : null);
  }

  // draw writes the box as it is to be in this state.
  draw(state, now) {
    this.state = state;
    this.now = now;
    if (!state) return;
    const { party } = state;
    const gathers = state.phase === 'lobby' && Boolean(state.event?.party) && !state.event.draw?.closed_at;
    const inside = ['admitted', 'entered', 'guest'].includes(state.phase);
    show($('party'), gathers || (party !== null && (state.phase === 'lobby' || state.phase === 'waiting' || inside)));
    show($('party-alone'), gathers && party === null);
    show($('party-in'), party !== null);
    text($('party-text'), t(party === null ? 'party.text' : 'party.together', { n: state.event?.party?.size ?? '' }));
    for (const id of ['party-make', 'party-join', 'party-buy', 'party-leave', 'friend-buy']) attr($(id), 'aria-disabled', this.busy ? 'true' : null);
    if (party === null) {
      this.code = '';
      this.seeking = false;
      return;
    }
    const open = gathers && party.members < party.size;
    if (gathers && this.code === '') this.seek();
    show($('party-invite'), open && this.code !== '');
    text($('party-is'), this.code);
    text($('party-members'), t('party.members', { n: party.members, size: party.size }));
    text($('party-buyer'), t(party.buys ? 'party.you' : 'party.friend'));
    show($('party-buy'), !party.buys && state.phase !== 'guest');
    show($('friend-buy'), state.phase === 'guest' && state.party.turn !== 'entered');
    if (state.phase === 'guest') text($('friend-clock'), countdown(Math.max(0, party.ends - now)));
  }
}
