// What a line of the audit trail says.

// changes lists the settings that a deed changed, as "name: before → after". Both
// sides are JSON documents; what is not is shown as it stands.
export function changes(before, after) {
  const a = read(before);
  const b = read(after);
  if (a === undefined || b === undefined) return [before, after].filter(Boolean).join(' → ');
  const said = [];
  for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const was = JSON.stringify(a[name]);
    const is = JSON.stringify(b[name]);
    if (was === is) continue;
    if (Object.keys(a).length === 0) said.push(`${name}: ${brief(is)}`);
    else said.push(`${name}: ${brief(was)} → ${brief(is)}`);
  }
  return said.join(', ');
}

function read(raw) {
  if (!raw) return {};
  try {
    const v = JSON.parse(raw);
    return v && typeof v === 'object' && !Array.isArray(v) ? v : undefined;
  } catch {
    return undefined;
  }
}

function brief(json) {
  if (json === undefined) return '–';
  const text = json.replace(/^"(.*)"$/, '$1');
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
