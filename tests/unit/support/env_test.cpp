#include "support/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "support/text.h"
#include "tegula/error.h"

namespace tegula::env_test {
namespace {

using testing::ElementsAre;

Env read_from(const std::map<std::string, std::string>& values) {
  return Env::read([&](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal_of(const std::map<std::string, std::string>& values) {
  try {
    read_from(values);
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.diagnostic().code, "T2006");
    return e.diagnostic().message + "; " + e.diagnostic().hint;
  }
  return "accepted";
}

TEST(Env, FallsBackWhereUnsetOrEmpty) {
  const Env env = read_from({{"TEGULA_EAGER", ""}, {"TEGULA_CACHE", ""}});
  EXPECT_FALSE(env.eager);
  EXPECT_EQ(env.eager_program, "0");
  EXPECT_EQ(env.cache, "on");
  EXPECT_EQ(env.device, "");
  EXPECT_TRUE(env.check.empty());
}

TEST(Env, ReadsEveryKind) {
  const Env env = read_from({{"TEGULA_DEVICE", "cuda:1"},
                             {"TEGULA_EAGER", "1"},
                             {"TEGULA_CACHE", "readonly"},
                             {"TEGULA_LOOP_LIMIT", "5000"},
                             {"TEGULA_CACHE_DIR", "/tmp/a b"},
                             {"TEGULA_CHECK", "retrace, bounds,"}});
  EXPECT_EQ(env.device, "cuda:1");
  EXPECT_TRUE(env.eager);
  EXPECT_EQ(env.cache, "readonly");
  EXPECT_EQ(env.loop_limit, 5000);
  EXPECT_EQ(env.cache_dir, std::filesystem::path("/tmp/a b"));
  EXPECT_THAT(env.check, ElementsAre("retrace", "bounds"));
}

TEST(Env, RefusesValuesOutsideTheTable) {
  const std::string not_allowed = " in the environment: the value is not allowed; use ";
  EXPECT_EQ(refusal_of({{"TEGULA_EAGER", "yes"}}), "TEGULA_EAGER=yes" + not_allowed + "0 or 1");
  EXPECT_EQ(refusal_of({{"TEGULA_LOOP_LIMIT", "0"}}),
            "TEGULA_LOOP_LIMIT=0" + not_allowed + "a positive integer");
  EXPECT_EQ(refusal_of({{"TEGULA_LOOP_LIMIT", "10k"}}),
            "TEGULA_LOOP_LIMIT=10k" + not_allowed + "a positive integer");
  EXPECT_EQ(refusal_of({{"TEGULA_CACHE", "of"}}),
            "TEGULA_CACHE=of" + not_allowed + "one of on, off, readonly");
}

TEST(Env, RefusesMisspeltNames) {
  const auto refusal = [](const char* entry) -> std::string {
    try {
      refuse_misspelt({"HOME=/root", entry});
    } catch (const DeviceError& e) {
      return e.diagnostic().code + " " + e.diagnostic().hint;
    }
    return "accepted";
  };
  EXPECT_EQ(refusal("TEGULA_DEVCE=sim"), "T2006 did you mean TEGULA_DEVICE?");
  EXPECT_EQ(refusal("TEGULA_DEVCIE=sim"), "T2006 did you mean TEGULA_DEVICE?");
  EXPECT_EQ(refusal("TEGULA_PTXA=/x"), "T2006 did you mean TEGULA_PTXAS?");
  EXPECT_EQ(refusal("TEGULA_CACHE_DIRS=/x"), "T2006 did you mean TEGULA_CACHE_DIR?");
  EXPECT_EQ(refusal("TEGULA_DEVICE=sim"), "accepted");
  EXPECT_EQ(refusal("TEGULA_TREE=/home"), "accepted") << "two of four letters differ from TUNE";
  EXPECT_EQ(refusal("TEGULA_FUZZ_SEED=1"), "accepted");
  EXPECT_EQ(refusal("DEVCE=sim"), "accepted");
}

TEST(Env, NamesUnknownVariables) {
  EXPECT_THAT(unknown_variables({"TEGULA_DEVCE=sim", "TEGULA_DEVICE=sim", "HOME=/root", "TEGULA_=x",
                                 "TEGULA_ZZ"}),
              ElementsAre("TEGULA_", "TEGULA_DEVCE", "TEGULA_ZZ"));
}

TEST(Env, SeesTheProcessEnvironment) {
  ASSERT_EQ(setenv("TEGULA_MISSPELT", "1", 1), 0);
  EXPECT_THAT(unknown_variables(environment_entries()), testing::Contains("TEGULA_MISSPELT"));
  unsetenv("TEGULA_MISSPELT");
}

TEST(Env, OverrideEndsWithItsScope) {
  const std::string before = env().device;
  {
    Env other;
    other.device = "sim";
    const EnvOverride scope(other);
    EXPECT_EQ(env().device, "sim");
    Env inner;
    inner.device = "cpu";
    {
      const EnvOverride nested(inner);
      EXPECT_EQ(env().device, "cpu");
    }
    EXPECT_EQ(env().device, "sim");
  }
  EXPECT_EQ(env().device, before);
}

TEST(Env, DocumentationIsCurrent) {
  const std::filesystem::path page = std::filesystem::path(TEGULA_SOURCE_DIR) / "docs/env.md";
  if (env().bless) write_file(page, env_markdown());
  EXPECT_EQ(read_file(page), env_markdown()) << "rewrite it with TEGULA_BLESS=1";
}

}  // namespace
}  // namespace tegula::env_test
