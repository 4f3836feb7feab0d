// Package gate is a small reverse proxy that lets only holders of an entry token
// through to a site, for whoever has no proxy of their own to teach.
//
// # What exists
//
//   - rule: what a request must look like (path, method, header, address) and what
//     becomes of it: pass lets it through unasked, wait lets holders through, spend
//     lets each holder through once, refuse lets nobody through.
//   - Proxy: takes the first rule that fits, asks package web/guard about holders,
//     and hands what passes to the site, with X-Waitroom-User and X-Waitroom-Entry.
//   - enter: POST /v1/gate/{event}/enter goes to the service, which sets the cookie
//     on the site's own host; everything else below /v1/gate is not the site's.
//
// # Rules
//
// A YAML file, read at the start; the first rule that fits decides, and a request
// that fits none waits.
//
//	rules:
//	  - {path: /healthz, do: pass}
//	  - {path: /static/, do: pass}              # a path that ends in / and what is below it
//	  - {address: 10.0.0.0/8, do: pass}         # the office
//	  - {header: "X-Probe: blue", do: pass}
//	  - {path: /checkout, method: POST, do: spend}
//	  - {path: /admin/, do: refuse}
//
// # Promises, each with a test that names it
//
//  1. Nobody reaches a guarded path without a good token, however it is spelled: a
//     path with dots, doubled or encoded slashes is judged in the form the site gets.
//  2. What a client claims of itself in X-Waitroom-User, X-Waitroom-Entry or
//     X-Forwarded-For never reaches the site.
//  3. A wrong file stops the start with the rule's number and field.
package gate
