package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
)

func TestMain(m *testing.M) {
	status := m.Run()
	sqltest.Stop()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}
