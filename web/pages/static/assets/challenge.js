// A challenge before joining: ALTCHA's own widget, which we serve ourselves, works it
// out in a few workers. Nobody has to read, hear or click anything. The files under
// altcha/ come from npm when the service is built (.ci/widget), and are loaded only where
// they are needed; where the build or the network has none, puzzle.js does the same.

import { call } from './api.js';
import { $ } from './dom.js';

const files = '/assets/altcha';
const asked = ['challenge_required', 'challenge_failed'];

// Unsolvable is a challenge that this page cannot work out; its code has a sentence.
class Unsolvable extends Error {
  constructor(code) {
    super(code);
    this.code = code;
    this.wait = 0;
  }

  get passing() {
    return false;
  }
}

let loaded; // one promise of the widget

function load() {
  loaded ??= (async () => {
    const style = document.createElement('link');
    style.rel = 'stylesheet';
    style.href = `${files}/altcha.css`;
    document.head.append(style);
    await import(`${files}/altcha.js`);
    globalThis.$altcha.algorithms.set('PBKDF2/SHA-256', () => new Worker(`${files}/pbkdf2.js`));
  })();
  loaded.catch(() => {
    loaded = undefined; // the network may be back for the next try
  });
  return loaded;
}

// byWidget has the widget solve one challenge.
async function byWidget(challenge) {
  const widget = document.createElement('altcha-widget');
  const mounted = new Promise((resolve) => widget.addEventListener('load', resolve, { once: true }));
  $('check-widget').replaceChildren(widget);
  await mounted;
  widget.configure({ challenge, hideFooter: true, hideLogo: true, humanInteractionSignature: false, minDuration: 0 });
  const result = await widget.verify();
  return result?.payload;
}

// work solves one challenge, and shows meanwhile that it does.
async function work(challenge) {
  const box = $('check');
  box.hidden = false;
  try {
    const there = await load().then(() => true, () => false);
    const payload = await (there ? byWidget(challenge) : import('./puzzle.js').then(({ answer }) => answer(challenge)));
    if (!payload) throw new Unsolvable('challenge_failed');
    return payload;
  } finally {
    box.hidden = true;
    $('check-widget').replaceChildren();
  }
}

// solve gets a challenge where a refusal says, and works it out.
async function solve(address) {
  if (!isSecureContext) throw new Unsolvable('challenge_insecure');
  const { body } = await call('GET', address);
  if (body?.kind !== 'altcha') throw new Unsolvable('challenge_elsewhere');
  return work({ parameters: body.parameters, signature: body.signature });
}

// proved makes a call, and once more with a solution where the service wants one.
export async function proved(ask) {
  const tries = 3;
  let solution;
  for (let n = 1; ; n++) {
    try {
      return await ask(solution);
    } catch (err) {
      if (!asked.includes(err.code) || n > tries || !err.challenge?.startsWith('/v1/')) throw err;
      solution = await solve(err.challenge);
    }
  }
}
