package pages_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/waitroom-dev/waitroom/web/browsertest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browsertest.Close()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
