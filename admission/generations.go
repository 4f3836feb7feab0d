package admission

import "sync"

// generations is a cache of bounded size: when the young generation is full it
// becomes the old one, and what was old and not asked for since is forgotten. A
// put or get costs one short lock; there is no list to keep in order.
type generations[K comparable, V any] struct {
	size int // most entries of one generation; at most twice as many are held

	mu         sync.Mutex // guards young, old
	young, old map[K]V
}

func newGenerations[K comparable, V any](size int) *generations[K, V] {
	return &generations[K, V]{size: size, young: make(map[K]V)}
}

// get finds an entry, and keeps it from being forgotten with the old ones.
func (g *generations[K, V]) get(k K) (V, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, ok := g.young[k]; ok {
		return v, true
	}
	v, ok := g.old[k]
	if ok {
		g.add(k, v)
	}
	return v, ok
}

func (g *generations[K, V]) put(k K, v V) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(k, v)
}

func (g *generations[K, V]) add(k K, v V) {
	if len(g.young) >= g.size {
		g.old, g.young = g.young, make(map[K]V)
	}
	g.young[k] = v
}
