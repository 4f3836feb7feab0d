// Package draw decides the order of everybody who came before the doors opened, so
// that anyone can check afterwards that nobody steered it.
//
// # What exists
//
//   - seed: 32 secret random bytes, drawn when the event is made.
//   - commitment: the seed's hash, published before the lobby opens. From then on
//     the seed cannot be another one.
//   - entrant: one entry in the lobby, known outside by its leaf: a hash of event and
//     entry, which only its owner can connect with a person.
//   - list: all leaves of the lobby in ascending order, fixed when it closes.
//   - root: the list's Merkle root (RFC 6962's tree), published before the seed is.
//   - beacon: randomness of a public source from a moment after the lobby's close
//     that was named before (a drand round). Optional; without it the commitment
//     alone binds the service.
//   - key: HMAC-SHA-256 under the seed of event, root, size and beacon.
//   - order: a permutation of the list that the key picks; entrant i stands at place
//     Order.Place(i), counted from 0.
//   - proof: an entrant's index in the list with its Merkle path. With the root, the
//     size, the seed and the beacon it gives the place, in a browser too.
//   - bundle: all of it in one file, which waitroom verify checks.
//
// # Why nobody can steer it
//
//	commitment ──▶ lobby opens ──▶ people join ──▶ lobby closes: root ──▶ beacon ──▶ seed
//	published                                      published              public     published
//
// Who runs the service knows the seed all along, but not the list until the lobby
// closes, and the beacon not before its round; who joins knows neither seed nor
// beacon. Without a beacon, whoever knows the seed could still add entrants of their
// own until the order suits them; with one, not even that.
//
// # The permutation
//
// Swap-or-not (Hoang, Morris, Rogaway, "An Enciphering Scheme Based on a Card
// Shuffle", CRYPTO 2012): in each round the place x meets its partner k - x mod n,
// and a bit, the same for both, says whether they change places. It fits any size,
// gives one entrant's place without the others' (a page needs 128 rounds, not the
// list), and its distance from a uniform draw shrinks with every round: 6 log2 n are
// advised, and 128 are done, enough for 2.6 million.
//
// # Promises, each with a test that names it
//
//  1. Every order is equally likely: the distribution over keys passes a chi-square
//     test over all orders of small lists and all places of larger ones.
//  2. Place and Places agree, and give each place once.
//  3. A proof holds for its own entrant, index, size and root, and for nothing else.
//  4. A bundle in which an entrant was added, removed or moved, the seed, the beacon
//     or the root changed, or a latecomer stands ahead does not verify, and the
//     reason says which.
//  5. The page's own program, in JavaScript, computes the same places.
package draw
