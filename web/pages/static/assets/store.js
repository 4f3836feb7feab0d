// What the pages remember. A browser may forbid storage: then the page remembers it
// itself, and the cookie, which we cannot read, still keeps the place.

function keep(name) {
  const memory = new Map();
  let area = null;
  try {
    area = globalThis[name];
    area.getItem('waitroom');
  } catch {
    area = null;
  }
  return {
    get(key) {
      try {
        const raw = area ? area.getItem(key) : memory.get(key);
        return raw === null || raw === undefined ? undefined : JSON.parse(raw);
      } catch {
        return undefined;
      }
    },
    set(key, value) {
      const raw = JSON.stringify(value);
      try {
        if (area) {
          area.setItem(key, raw);
          return;
        }
      } catch {
        area = null; // full, or taken away while we ran
      }
      memory.set(key, raw);
    },
    remove(key) {
      memory.delete(key);
      try {
        area?.removeItem(key);
      } catch {
        area = null;
      }
    },
  };
}

// device outlives the browser and is shared by its tabs; tab ends with the tab.
export const device = keep('localStorage');
export const tab = keep('sessionStorage');

// The names of what is kept. A place is {token, born, first, least}: born names one
// joining, first is the position it began with, least the smallest shown so far.
export const placeKey = (event) => `waitroom:place:${event}`;
// A turn is {token, expires_at}.
export const turnKey = (event) => `waitroom:turn:${event}`;
export const sentKey = (event) => `waitroom:sent:${event}`;
export const reservationKey = (event) => `waitroom:reservation:${event}`;
// A credit brings its holder in once more after a fault of the service.
export const creditKey = (event) => `waitroom:credit:${event}`;
export const attemptKey = (event, deed) => `waitroom:attempt:${deed}:${event}`;
// A commitment is {commitment, born}: that of the draw which the joining `born` is in.
export const commitmentKey = (event) => `waitroom:commitment:${event}`;
// The heads of an event's admission log that this device saw: see heads.js.
export const headsKey = (event) => `waitroom:heads:${event}`;
