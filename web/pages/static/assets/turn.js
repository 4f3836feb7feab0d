// The way from the waiting page to the shop: the entry token goes along in this
// tab's storage or in a form, never in an address.

import { sentKey, tab, turnKey } from './store.js';

// destination is how a turn is carried to its address: {way: "shop", href} for our
// own shop page, {way: "form", action, back} for a site, null where that is none.
export function destination(redirect, event, origin) {
  let url;
  try {
    url = new URL(redirect || `/e/${event}/shop`, origin);
  } catch {
    return null;
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return null;
  if (url.origin === origin && url.pathname === `/e/${event}/shop`) {
    return { way: 'shop', href: url.pathname + url.search };
  }
  return { way: 'form', action: `${url.origin}/v1/gate/${event}/enter`, back: url.pathname + url.search, host: url.host };
}

// keep hands the turn to our shop page.
export function keep(event, turn) {
  tab.set(turnKey(event), { token: turn.token, expires_at: new Date(turn.expires).toISOString() });
}

// go takes the person there.
export function go(event, turn) {
  const to = destination(turn.redirect, event, location.origin);
  if (!to) return;
  tab.set(sentKey(event), turn.token);
  if (to.way === 'shop') {
    keep(event, turn);
    location.assign(to.href);
    return;
  }
  const form = document.createElement('form');
  form.method = 'post';
  form.action = to.action;
  form.hidden = true;
  for (const [name, value] of [['entry_token', turn.token], ['return_to', to.back]]) {
    const input = document.createElement('input');
    input.type = 'hidden';
    input.name = name;
    input.value = value;
    form.append(input);
  }
  document.body.append(form);
  form.submit();
  form.remove();
}

// wasSent tells whether this tab has taken the person there already: who comes back
// is not sent off again against their will.
export const wasSent = (event, turn) => tab.get(sentKey(event)) === turn.token;
