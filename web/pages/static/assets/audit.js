// What a line of the audit trail says.

// changes lists what a deed changed, each as {name, was, is}; was is undefined where
// there was nothing before. Both sides are JSON documents, in which the settings are
// a document again.
export function changes(before, after) {
  const a = flat(read(before));
  const b = flat(read(after));
  const said = [];
  for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const was = JSON.stringify(a[name]);
    const is = JSON.stringify(b[name]);
    if (was !== is) said.push({ name, was: brief(was), is: brief(is) });
  }
  return said;
}

// isDocument tells whether there is something to compare.
export const isDocument = (raw) => read(raw) !== undefined;

// rows counts the lines of a record that is a list.
export const rows = (raw) => (raw ? raw.split('\n').filter(Boolean).length : 0);

function read(raw) {
  try {
    const v = JSON.parse(raw);
    return v && typeof v === 'object' && !Array.isArray(v) ? v : undefined;
  } catch {
    return undefined;
  }
}

function flat(doc = {}) {
  const { settings, ...rest } = doc;
  const inner = typeof settings === 'string' ? read(settings) : undefined;
  return inner ? { ...inner, ...rest } : doc;
}

function brief(json) {
  if (json === undefined) return undefined;
  const text = json.replace(/^"(.*)"$/, '$1');
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
