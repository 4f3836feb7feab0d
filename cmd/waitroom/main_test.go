package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waitroom-dev/waitroom/ticket/sqltest"
	"github.com/waitroom-dev/waitroom/web/browsertest"
)

func TestMain(m *testing.M) {
	status := m.Run()
	browsertest.Close()
	sqltest.Stop()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}
