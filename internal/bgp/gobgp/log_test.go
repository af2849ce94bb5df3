package gobgp

import (
	"log/slog"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

func TestGoBGPLogsAtLowerLevelsExceptLimitWarnings(t *testing.T) {
	var text expect.Log
	log := slog.New(newLogHandler(text.Logger(slog.LevelDebug)))
	log.Error("one")
	log.Warn("two")
	log.Warn(tooMuch, "Key", "192.0.2.2", "Pct", 80)
	for _, want := range []string{"level=WARN msg=one", "level=INFO msg=two", `level=WARN msg="prefix limit reached" Key=192.0.2.2 Pct=80`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}
