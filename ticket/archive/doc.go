// Package archive is the seller's side of events that give out tokens at once.
//
// The line answers people from memory; nothing here stands in their way. Behind it
// the Archiver carries what was given out into the database, and the Stocktaker
// tells the line when the last piece is sold.
//
//	ask ─▶ issue script ─▶ answer
//	            │ archive (a stream, per event)
//	            ▼
//	        Archiver ──▶ database: one row a token     (role worker)
//
//	        Stocktaker: nothing free and nothing held ──▶ the line says "sold out"
//
// # Words
//
//   - file: write tokens to the database, and then take them out of the archive.
//     In that order, so that a crash between files them twice, which their key
//     makes once.
//   - pending: taken from the archive and not filed. Another worker takes it over
//     after Config.Idle.
//
// # Bounds
//
// The archive is never cut: it loses a record when it is filed, and only then. With
// the database away it grows by about 150 bytes a token, up to a million tokens of
// one event; from there on the line gives out nothing (503) until some are filed.
// What the store itself loses (a failover without an acknowledged replica, up to a
// second with appendfsync everysec) is lost to the archive together with the tokens
// themselves: they open nothing any more, and their numbers are given out again.
//
// # Promises, each with a test that names it
//
//  1. What was given out is in the database once, whatever crashes in between, and
//     however long the database was away.
//  2. An event that fails stops no other.
//  3. The line hears that the last piece is sold, and that one came back.
package archive
