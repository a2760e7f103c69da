#pragma once
// The promises of every space of configurations.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "autotune/space.h"

namespace tegula::autotune::test {

inline Limits limits(int capability = 90) {
  DeviceProfile gpu = host_profile();
  gpu.capability = capability;
  return limits_of(gpu);
}

/// An enumerated configuration obeys every rule, is named once, and comes back from its text; every
/// rule has something to refuse.
template <class P, class C>
void expect_sound(const Space<P, C>& space, const std::vector<P>& problems) {
  std::map<std::string_view, int> broken;
  for (const int capability : {80, 90})
    for (const P& p : problems) {
      const Limits gpu = limits(capability);
      std::set<std::string> texts;
      const auto visit = [&](const C& c) {
        EXPECT_TRUE(why_not(space, p, c, gpu).empty()) << text_of(p) << "\n" << text_of(c);
        EXPECT_TRUE(is_runnable(space, p, c, gpu)) << text_of(p) << "\n" << text_of(c);
        EXPECT_EQ(parse<C>(text_of(c)), c);
        EXPECT_TRUE(texts.insert(text_of(c)).second) << text_of(c) << " twice";
      };
      Enumeration walk(space, p, gpu, visit);
      EXPECT_GT(walk.run(), 0) << text_of(p);
      EXPECT_EQ(parse<P>(text_of(p)), p);
      for (std::size_t i = 0; i < space.rules.size(); ++i)
        broken[space.rules[i].name] += walk.rejected()[i];
    }
  EXPECT_EQ(broken.size(), space.rules.size()) << "two rules of one name";
  for (const auto& [rule, count] : broken) EXPECT_GT(count, 0) << rule;
  for (std::size_t i = 1; i < space.rules.size(); ++i)
    EXPECT_LE(space.rules[i - 1].last_axis, space.rules[i].last_axis) << "not in order";
}

}  // namespace tegula::autotune::test
