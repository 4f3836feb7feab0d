package admission

// The names of this package's keys in the store. The lease and its fence share a
// hash tag, since one script touches both.

func keysKey(prefix string) string      { return prefix + ":keys" }
func holdersKey(prefix string) string   { return prefix + ":keys:holders" }
func leaseKey(prefix string) string     { return prefix + ":{leader}:lease" }
func fenceKey(prefix string) string     { return prefix + ":{leader}:fence" }
func seenKey(prefix string) string      { return prefix + ":{leader}:seen" }
func poolsKey(prefix string) string     { return prefix + ":pools" }
func workersKey(prefix string) string   { return prefix + ":workers" }
func reportsKey(prefix string) string   { return prefix + ":reports" }
func decisionsKey(prefix string) string { return prefix + ":decisions" }
