package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine is what the figures were measured on.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	System string `json:"system"`
	Go     string `json:"go"`
	Redis  string `json:"redis"`
	Load   string `json:"load"` // of the last minute, as it was before
}

func thisMachine(ctx context.Context) machine {
	m := machine{
		CPU: field("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: field("/proc/meminfo", "MemTotal"),
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
	}
	if out, err := exec.CommandContext(ctx, "redis-server", "--version").Output(); err == nil {
		for word := range strings.FieldsSeq(string(out)) {
			if v, ok := strings.CutPrefix(word, "v="); ok {
				m.Redis = v
			}
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(load), " ")
	}
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores (%s), %s, %s, %s, Redis %s; load before: %s",
		m.Cores, m.CPU, m.Memory, m.System, m.Go, m.Redis, m.Load)
}

// field finds "name : value" in one of the kernel's files; "?" where there is none.
func field(file, name string) string {
	content, err := os.ReadFile(file) //nolint:gosec // the caller's constant
	if err != nil {
		return "?"
	}
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}
