package hub

func runChild() bool { return false }
