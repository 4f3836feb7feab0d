// The public event: what everybody may know, and the clock that comes with it.

import { call } from './api.js';
import { jitter } from './backoff.js';
import { serverTime } from './clock.js';
import { opening } from './place.js';

// usual is the time between two looks while no connection tells us of changes.
const usual = 15000;
// rest is the time between two looks long before the opening.
const rest = 60000;

// look asks for the event and sets the clock.
export async function look(event, clock, attempt) {
  const answer = await call('GET', `/v1/events/${event}`, { attempt });
  clock.learn(serverTime(answer.body, answer.headers), answer.sent, answer.received);
  return answer.body;
}

// nextLook is when to ask again, in ms: around the opening all pages want to know at
// once, so each comes a little later than the moment itself.
export function nextLook(event, now, random = Math.random) {
  const next = opening(event, now);
  const spread = jitter(0, { base: 3000, random });
  if (!next) return usual + spread;
  return Math.min(next.at - now, rest) + 200 + spread;
}
